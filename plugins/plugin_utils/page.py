# Copyright: (c) 2026, the vhpc.rdma authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""What the pages of the collection have in common: one file each, readable on a phone, in the dark and on paper, nothing fetched from anywhere. Pure."""

from __future__ import annotations

from jinja2 import Environment

# A state is a sign and a word; colour comes on top, for those who see it.
SIGNS = {"pass": "\u2713", "warn": "!", "fail": "\u2715", "none": "\u2013"}
WORDS = {"pass": "passed", "warn": "warning", "fail": "failed", "none": "not judged"}
VERDICTS = {"pass": "Passed", "warn": "Passed, with warnings", "fail": "Failed", "none": "Nothing was judged"}

LIGHT = ("--ink:#1d2733;--soft:#55636f;--line:#d5dce3;--page:#f5f7f9;--card:#fff;--head:#eef2f5;--good:#17693f;--warn:#875400;--bad:#b3261e;"
         "--goodbg:#e3f4ea;--warnbg:#fdf0d2;--badbg:#fbe1de;--band:#cfdcea;--link:#0b5cad;color-scheme:light")
DARK = ("--ink:#e6ebf0;--soft:#a3b0bc;--line:#36414c;--page:#12181e;--card:#1a222a;--head:#222c36;--good:#6fd39c;--warn:#f0b95a;--bad:#ff8a80;"
        "--goodbg:#173327;--warnbg:#3a2d12;--badbg:#43201d;--band:#2b3f55;--link:#7fb8f5;color-scheme:dark")
STYLE = ":root{" + LIGHT + "}@media(prefers-color-scheme:dark){:root{" + DARK + """}}
*{box-sizing:border-box}body{font:15px/1.5 system-ui,sans-serif;color:var(--ink);margin:0;background:var(--page)}
main{max-width:1180px;margin:0 auto;padding:14px 20px 40px}a{color:var(--link)}
h1{font-size:24px;line-height:1.2;margin:4px 0}h2{font-size:19px;margin:30px 0 10px;border-bottom:2px solid var(--line);padding-bottom:4px}
h3{font-size:15px;margin:14px 0 6px}.soft{color:var(--soft)}.small{font-size:13px}.nowrap{white-space:nowrap}
.skip{position:absolute;left:-999px}.skip:focus{position:static}:focus-visible{outline:3px solid var(--link);outline-offset:2px}
.banner{background:var(--warnbg);border:1px solid var(--warn);padding:6px 12px;border-radius:6px;margin:8px 0;font-weight:600;font-size:14px;line-height:1.35}
.verdict{border-left:8px solid var(--soft);background:var(--card);border-radius:6px;padding:8px 14px;margin:10px 0}
.verdict b{font-size:20px;margin-right:8px}.verdict.pass{border-color:var(--good);background:var(--goodbg)}
.verdict.warn{border-color:var(--warn);background:var(--warnbg)}.verdict.fail{border-color:var(--bad);background:var(--badbg)}
.pass>b,b.pass,td.pass,span.pass{color:var(--good)}.warn>b,b.warn,td.warn,span.warn{color:var(--warn)}.fail>b,b.fail,td.fail,span.fail{color:var(--bad)}
.first{display:grid;grid-template-columns:repeat(auto-fit,minmax(min(430px,100%),1fr));gap:6px 28px}.first h2{margin:12px 0 4px;font-size:17px}
.first ul{list-style:none;margin:0;padding:0}.first li{padding:5px 0;border-bottom:1px solid var(--line);line-height:1.35}
.first li:last-child{border:0}.first p{margin:2px 0;font-size:13px;color:var(--soft)}
.facts{display:flex;flex-wrap:wrap;gap:4px 20px;margin:12px 0;padding:0;list-style:none}.facts b{font-size:17px}
nav{font-size:14px;display:flex;flex-wrap:wrap;gap:2px 16px}
table{border-collapse:collapse;background:var(--card);font-size:13px;font-variant-numeric:tabular-nums}
th,td{border:1px solid var(--line);padding:3px 8px;text-align:left;vertical-align:top}th{background:var(--head)}td.n{text-align:right}
th.from{min-width:260px}td.odd{background:var(--warnbg);font-weight:600}.wide{overflow-x:auto;margin:6px 0}
.matrix td,.matrix th{padding:2px 5px;text-align:right;font-size:11px}
.maps{display:flex;flex-wrap:wrap;gap:0 16px}.maps>section{max-width:100%;min-width:0}
.charts{display:grid;grid-template-columns:repeat(auto-fit,minmax(min(440px,100%),1fr));gap:14px}
figure{margin:0;background:var(--card);border:1px solid var(--line);border-radius:8px;padding:10px;min-width:0}figcaption{font-size:14px;margin-bottom:4px}
svg{display:block;width:100%;height:auto}svg.map{min-width:var(--least);max-width:calc(var(--least) * 1.1)}details{margin:6px 0}
summary{cursor:pointer;padding:2px 0}
code{background:var(--head);padding:1px 4px;border-radius:3px;overflow-wrap:anywhere}
pre{background:var(--head);padding:8px;overflow-x:auto;white-space:pre-wrap}
@media(max-width:600px){main{padding:8px 12px 30px}h1{font-size:19px}body{font-size:14px}.banner{font-size:12.5px;padding:4px 10px;margin:6px 0}
.verdict{padding:6px 10px;margin:6px 0}.verdict b{font-size:17px}.first li{padding:3px 0}.first p{font-size:12px}.first h2{margin:8px 0 2px;font-size:15px}
.facts{gap:2px 14px;font-size:13px}.facts b{font-size:14px}}
@media print{:root{""" + LIGHT + """}body{background:#fff;font-size:11px}main{max-width:none;padding:0}nav,.skip{display:none}
figure,tr,li{break-inside:avoid}h2,h3{break-after:avoid}.wide{overflow:visible}svg.map{min-width:0}table{font-size:9px}
.first p{font-size:10px}.first h2,h2{font-size:14px;margin:10px 0 4px}.facts b{font-size:11px}.banner{font-size:11px}.verdict b{font-size:14px}
h1{font-size:18px}
.matrix td,.matrix th{font-size:7px;padding:1px 2px}details::details-content{content-visibility:visible;height:auto}
*{-webkit-print-color-adjust:exact;print-color-adjust:exact}}
"""

HEAD = """<!DOCTYPE html>
<html lang="en"><head><meta charset="utf-8"><meta name="viewport" content="width=device-width, initial-scale=1">
<title>{{ title }}</title><style>""" + STYLE + """</style></head><body><a class="skip" href="#main">To the contents</a><main id="main">
{% macro mark(state) %}<span class="{{ state }} nowrap">{{ signs[state] }} {{ words[state] }}</span>{% endmacro %}
{% macro wide(label) %}<div class="wide" tabindex="0" role="region" aria-label="{{ label }}">{{ caller() }}</div>{% endmacro %}
"""
FOOT = "</main></body></html>\n"


def render(template: str, title: str, **values: object) -> str:
    """The page; what came from elsewhere is escaped."""
    environment = Environment(autoescape=True, trim_blocks=True, lstrip_blocks=True)
    return environment.from_string(HEAD + template + FOOT).render(title=title, signs=SIGNS, words=WORDS, verdicts=VERDICTS, **values)
