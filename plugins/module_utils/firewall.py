# Copyright: (c) 2026, the vhpc.rdma authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""TCP ports in the guest's own firewall: firewalld, ufw or nftables, whichever filters; now and after a reboot."""

import json
import re

from ansible_collections.vhpc.rdma.plugins.module_utils.errors import RdmaError

COMMENT = "vhpc.rdma"
NFT_FILE = "/etc/nftables.vhpc-rdma.nft"
NFT_CONFIGURATIONS = ("/etc/sysconfig/nftables.conf", "/etc/nftables.conf")
NFT_INCLUDE = 'include "%s"' % NFT_FILE
REFUSING = ("drop", "reject", "jump", "goto", "queue", "vmap")


# ---- pure ------------------------------------------------------------------------------------------------------------------------

def ranges(texts, where=""):
    """Ports and ranges as written ("18515", "18514-18515") as sorted pairs; neighbours become one."""
    pairs = []
    for text in texts:
        match = re.match(r"^\s*(\d+)(?:\s*-\s*(\d+))?\s*$", str(text))
        first = int(match.group(1)) if match else 0
        last = int(match.group(2) or first) if match else 0
        if not 1 <= first <= last <= 65535:
            raise RdmaError("open the port %s" % text, where, "it is neither a TCP port nor a range of them", "write it as 18515 or 18514-18515",
                            code="FIREWALL")
        pairs.append((first, last))
    out = []
    for first, last in sorted(pairs):
        if out and first <= out[-1][1] + 1:
            out[-1] = (out[-1][0], max(last, out[-1][1]))
        else:
            out.append((first, last))
    return out


def name(pair, between="-"):
    return "%d" % pair[0] if pair[0] == pair[1] else "%d%s%d" % (pair[0], between, pair[1])


def parse_nft(text):
    """nft -j list ruleset: the chains that may refuse what comes in, as dict(family, table, chain, ours: handle -> ports of our rules)."""
    try:
        rows = json.loads(text or "{}").get("nftables") or []
    except (AttributeError, ValueError) as err:
        raise RdmaError("read the rules of nftables", why="nft -j list ruleset is no JSON (%s)" % err, hint="nft must be built with JSON", code="FIREWALL")
    chains = {}
    for row in rows:
        chain = row.get("chain") or {}
        if chain.get("hook") == "input" and chain.get("type") == "filter" and chain.get("family") in ("inet", "ip", "ip6"):
            key = (chain["family"], chain["table"], chain["name"])
            chains[key] = dict(family=key[0], table=key[1], chain=key[2], ours={}, refuses=chain.get("policy") == "drop")
    for row in rows:
        rule = row.get("rule") or {}
        held = chains.get((rule.get("family"), rule.get("table"), rule.get("chain")))
        if held is None:
            continue
        words = [word for part in rule.get("expr") or [] for word in part]
        # A target of iptables-nft; an older nft says no more of it than that it is one.
        foreign = [part["xt"] for part in rule.get("expr") or [] if "xt" in part]
        held["refuses"] = held["refuses"] or any(word in REFUSING for word in words) or any(
            not one or one.get("type") == "target" and one.get("name") == "REJECT" for one in foreign)
        if rule.get("comment") == COMMENT:
            held["ours"][rule["handle"]] = _ports(rule.get("expr") or [])
    return [chains[key] for key in sorted(chains) if chains[key]["refuses"] or chains[key]["ours"]]


def _ports(expressions):
    """The ports that a rule of ours names, as ranges."""
    out = []
    for part in expressions:
        right = (part.get("match") or {}).get("right")
        for one in right.get("set", [right]) if isinstance(right, dict) else [right]:
            if isinstance(one, dict) and len(one.get("range", ())) == 2:
                out.append("%s-%s" % tuple(one["range"]))
            elif isinstance(one, int):
                out.append(str(one))
    return ranges(out)


def nft_rule(chain, pairs):
    """The words of one rule, as nft takes them."""
    return ["insert", "rule", chain["family"], chain["table"], chain["chain"], "tcp", "dport", "{", ", ".join(name(pair) for pair in pairs), "}", "accept",
            "comment", '"%s"' % COMMENT]


def parse_ufw(text):
    """ufw show added: the rules that let TCP ports in from everywhere, as ranges."""
    found = re.findall(r"^ufw allow (?:in )?(\d+(?::\d+)?)/tcp(?: comment .*)?\s*$", text, re.M)
    return [(int(one.split(":")[0]), int(one.split(":")[-1])) for one in found]


# ---- the system ------------------------------------------------------------------------------------------------------------------

def kind(system):
    """Which one filters: firewalld, ufw, nftables; empty when none does."""
    if system.find("firewall-cmd") and system.run(["firewall-cmd", "--state"], timeout=60)[0] == 0:
        return "firewalld"
    if system.find("ufw") and re.search(r"^Status: active", system.run(["ufw", "status"], timeout=60)[1], re.M):
        return "ufw"
    if system.find("nft") and nft_chains(system):
        return "nftables"
    return ""


def nft_chains(system):
    code, out, err = system.run(["nft", "-j", "list", "ruleset"], timeout=60)
    if code:
        raise RdmaError("read the rules of nftables", system.name(), (err or out).strip()[-300:], "use become: true", code="FIREWALL")
    return parse_nft(out)


def call(system, *argv):
    """Run a program of the firewall; its own words on failure."""
    code, out, err = system.run(list(argv), timeout=120)
    if code:
        raise RdmaError("run %s" % " ".join(argv), system.name(), (err or out).strip()[-300:], "see what the firewall says of its own state", code="FIREWALL")
    return out


def zone_of(system, zone):
    return zone or call(system, "firewall-cmd", "--get-default-zone").strip()


def read(system, which, pairs, zone):
    """Per range whether it is open (now, after a reboot)."""
    if which == "firewalld":
        where = "--zone=%s" % zone_of(system, zone)
        return dict((pair, tuple(system.run(["firewall-cmd"] + more + [where, "--query-port=%s/tcp" % name(pair)], timeout=60)[0] == 0
                                 for more in ([], ["--permanent"]))) for pair in pairs)
    if which == "ufw":
        there = parse_ufw(call(system, "ufw", "show", "added"))
        return dict((pair, (pair in there, pair in there)) for pair in pairs)
    chains = nft_chains(system)
    now = bool(chains) and all(pairs in list(chain["ours"].values()) for chain in chains)
    kept = bool(chains) and nft_kept(system) == nft_text(chains, pairs)
    any_now = any(chain["ours"] for chain in chains)
    return dict((pair, (now, kept)) for pair in pairs) if now or not any_now else dict((pair, (None, kept)) for pair in pairs)


def nft_text(chains, pairs):
    return "# Written by vhpc.rdma: perftest's ports\n" + "".join("%s\n" % " ".join(nft_rule(chain, pairs)) for chain in chains)


def nft_kept(system):
    """Our file, if what is loaded at boot reads it."""
    place = next((one for one in NFT_CONFIGURATIONS if system.exists(one)), "")
    return system.read(NFT_FILE, "") if place and NFT_INCLUDE in system.read(place, "").splitlines() else ""


def nft_place(system):
    """What nftables.service loads at boot. Raises where nothing does: a rule that is gone after the reboot is none."""
    place = next((one for one in NFT_CONFIGURATIONS if system.exists(one)), "")
    if place and system.find("systemctl") and system.run(["systemctl", "is-enabled", "nftables"], timeout=60)[0] == 0:
        return place
    raise RdmaError("keep a rule of nftables", system.name(), "nftables.service does not load the rules of this guest at boot",
                    "open the ports in what does, and leave firewall out", code="FIREWALL")


def change(system, which, pairs, zone, opened):
    """Open or close, now and after a reboot."""
    if which == "firewalld":
        where = "--zone=%s" % zone_of(system, zone)
        for pair in pairs:
            for more in ([], ["--permanent"]):
                # It is no failure to firewalld that a port is open, or closed, already.
                call(system, "firewall-cmd", *(more + [where, "--%s-port=%s/tcp" % ("add" if opened else "remove", name(pair))]))
    elif which == "ufw":
        for pair in pairs:
            call(system, "ufw", *([] if opened else ["delete"]) + ["allow", "%s/tcp" % name(pair, ":")])
    else:
        change_nft(system, pairs, opened)


def change_nft(system, pairs, opened):
    place = nft_place(system) if opened else next((one for one in NFT_CONFIGURATIONS if system.exists(one)), "")
    chains = nft_chains(system)
    before, ours = system.read(place, "") if place else "", system.read(NFT_FILE, "")
    lines = [line for line in before.splitlines() if line != NFT_INCLUDE]
    if opened:
        system.write(NFT_FILE, nft_text(chains, pairs), mode=0o644)
        system.write(place, "\n".join(lines + [NFT_INCLUDE]) + "\n")
        code, out, err = system.run(["nft", "-c", "-f", place], timeout=60)
        if code:
            # A file that does not load would leave the guest without its rules after a reboot.
            system.write(place, before)
            if ours:
                system.write(NFT_FILE, ours)
            else:
                system.remove(NFT_FILE)
            raise RdmaError("keep a rule of nftables", system.name(), "%s does not load with it: %s" % (place, (err or out).strip()[-300:]),
                            "the rules that run are not those of that file: make them the same, or open the ports there and leave firewall out",
                            code="FIREWALL")
    for chain in chains:
        for handle in sorted(chain["ours"]):
            call(system, "nft", "delete", "rule", chain["family"], chain["table"], chain["chain"], "handle", str(handle))
        if opened:
            call(system, "nft", *nft_rule(chain, pairs))
    if not opened:
        if place and NFT_INCLUDE in before.splitlines():
            system.write(place, "\n".join(lines) + "\n")
        system.remove(NFT_FILE)


STATES = {(True, True): "open", (True, False): "open until a reboot", (False, True): "open after a reboot", (False, False): "closed",
          (None, False): "other ports", (None, True): "other ports"}


def steps(changes, which, found, opened):
    """The ranges that have to be changed, added to changes."""
    todo = [pair for pair in sorted(found) if (found[pair] != (True, True) if opened else found[pair] != (False, False))]
    for pair in todo:
        changes.add("firewall %s" % which, "TCP %s" % name(pair), STATES[found[pair]], "open" if opened else "closed",
                    reason="perftest and the guests' meeting" if opened else "")
    return todo
