# Copyright: (c) 2026, the vhpc.rdma authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The one object that decides changed, diff, reboot reasons and the message.

A module's pure compare function fills a Changes from wanted and observed state. Check mode reports it,
apply acts on it, the plan collects it: nothing is decided twice.
"""

REBOOT_KINDS = ("", "host", "guest", "cold")  # cold: only a cold power cycle makes it current


class Changes:
    """An ordered list of steps of one stage on one host.

    stage: the room the step belongs to (bios, esxi, vsphere, guest, fabric, verify, teardown)
    """

    def __init__(self, stage):
        self.stage = stage
        self.steps = []
        self.pending = []

    def add(self, thing, name, before, after, reboot="", certainty="sure", reason=""):
        """A difference between observed and wanted that this run closes.

        thing: what is changed ("card 0000:3b:00.0", "vm vm01", "module nmlx5_core"); name: which setting of it;
        before, after: plain values; reboot: "" | host | guest | cold: what makes it current;
        certainty: sure | conditional (state could not be read yet; reason says why).
        """
        if reboot not in REBOOT_KINDS:
            raise ValueError(reboot)
        self.steps.append(dict(stage=self.stage, thing=thing, name=name, before=before, after=after,
                               certainty=certainty, reason=reason, reboot=reboot))

    def wait_for_reboot(self, reason, kind="host"):
        """Wanted state is already set and only a reboot is missing: not a change, but a reason to reboot."""
        self.pending.append(dict(reason=reason, kind=kind))

    @property
    def changed(self):
        """True when there is at least one step (a conditional one counts: the run may change it)."""
        return bool(self.steps)

    def reboot_reasons(self, kind="host"):
        """Why a reboot of that kind is needed once the steps are applied; conditional steps do not count."""
        things = {}  # one reason per thing: a card's eight settings are one reason, not eight
        for step in self.steps:
            if step["reboot"] == kind and step["certainty"] == "sure":
                things.setdefault(step["thing"], []).append(step["name"])
        reasons = ["%s: %s" % (thing, ", ".join(names)) for thing, names in things.items()]
        return reasons + [p["reason"] for p in self.pending if p["kind"] == kind]

    def diff(self):
        """before/after for Ansible's diff mode, one line per setting."""
        def side(key):
            return "".join("%s %s = %s\n" % (s["thing"], s["name"], s[key]) for s in self.steps)
        return dict(before=side("before"), after=side("after"))

    def result(self, **more):
        """The keys every module of the collection returns; `more` adds the module's own."""
        host, guest, cold = (self.reboot_reasons(k) for k in ("host", "guest", "cold"))
        out = dict(changed=self.changed, changes=self.steps, diff=self.diff(),
                   reboot_required=bool(host or guest), reboot_reasons=host + guest,
                   power_cycle_required=bool(cold), power_cycle_reasons=cold)
        out.update(more)
        return out
