# Copyright: (c) 2026, the vhpc.rdma authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Options of ESXi kernel modules, merged by key: what nobody asked about stays as it is and where it is."""

import re
from collections import OrderedDict

from ansible_collections.vhpc.rdma.plugins.module_utils.errors import RdmaError
from ansible_collections.vhpc.rdma.plugins.module_utils.tools.text import pci_address

KEY, VALUE = re.compile(r"^[A-Za-z_][A-Za-z0-9_]*$"), re.compile(r"^[^\s'\"]+$")
ABSENT = ("absent", None, "")


def parse(text):
    """a=1 b=2,2 in its order. A word without = keeps an empty value."""
    out = OrderedDict()
    for word in (text or "").split():
        key, dummy, value = word.partition("=")
        out[key] = value
    return out


def join(options):
    return " ".join("%s=%s" % (key, value) if value != "" else key for key, value in options.items())


def text_of(value):
    """The text of an option as users write it in YAML: a list is one value per port, a boolean is 0 or 1."""
    if isinstance(value, bool):
        return str(int(value))
    if isinstance(value, (list, tuple)):
        return ",".join(text_of(item) for item in value)
    return str(value).strip()


def same(have, want):
    """8, 0x08 and 0X8 are the same number; a list is compared value by value."""
    left, right = have.split(","), want.split(",")
    return len(left) == len(right) and all(_number(a) == _number(b) for a, b in zip(left, right))


def _number(text):
    text = text.strip().lower()
    try:
        return int(text, 0)
    except ValueError:
        return int(text) if text.isdigit() else text


def merge(configured, wanted, purge=False):
    """(options after, changed keys): wanted values set, absent ones removed, the rest kept in order unless purge clears it."""
    after = OrderedDict()
    left = OrderedDict((key, None if value in ABSENT else text_of(value)) for key, value in (wanted or {}).items())
    for key, value in configured.items():
        if key in left:
            want = left.pop(key)
            if want is not None:
                after[key] = value if same(value, want) else want
        elif not purge:
            after[key] = value
    for key, want in left.items():
        if want is not None:
            after[key] = want
    changed = [key for key in list(configured) + [key for key in after if key not in configured] if configured.get(key) != after.get(key)]
    return after, changed


def check(options, where):
    """Names and values as they will stand inside one quoted argument."""
    for module, wanted in (options or {}).items():
        if not re.match(r"^[A-Za-z][A-Za-z0-9_]*$", module):
            hint = "the module's name has an underscore, as in nmlx5_core" if "-" in module else ""
            raise RdmaError("set options of module %r" % module, where, "this is no name of a kernel module", hint, code="BAD_NAME")
        if wanted is not None and not isinstance(wanted, dict):
            raise RdmaError("set options of module %s" % module, where, "they are not written as option: value", code="BAD_OPTION")
        for key, value in (wanted or {}).items():
            values = list(value.values()) if isinstance(value, dict) else [value]
            if isinstance(value, dict) and KEY.match(key) and values and all(VALUE.match(text_of(one)) for one in values):
                continue  # one value per port: see per_port()
            if isinstance(value, dict) or not KEY.match(key) or (value not in ABSENT and not VALUE.match(text_of(value))):
                raise RdmaError("set %s=%s of module %s" % (key, value, module), where, "an option is a word and a value without blanks or quotes",
                                "write absent to remove it", code="BAD_OPTION")


def per_port(value, addresses, name, where):
    """The list of an option that has one value per port of all cards of the module, from {PCI address: value}: in PCI order, 0 for the rest."""
    given = dict((pci_address(str(address)), number) for address, number in value.items())
    strange = [str(address) for address in value if pci_address(str(address)) not in addresses]
    if strange:
        raise RdmaError("set %s" % name, where, "%s is no port of a card of this host (%s)" % (", ".join(strange), ", ".join(addresses) or "it has none"),
                        "write the PCI address of the port's function, as 0000:3b:00.0", code="BAD_OPTION")
    return ",".join(text_of(given.get(address, 0)) for address in addresses)


def known(module, after, parameters, where):
    """Refuses options that the module does not have (parameters: name -> description, empty where they could not be listed)."""
    unknown = [key for key in after if key not in parameters] if parameters else []
    if unknown:
        raise RdmaError("set options of module %s" % module, where, "it has no option %s" % ", ".join(unknown),
                        "`esxcli system module parameters list -m %s` lists them" % module, code="NO_OPTION")
