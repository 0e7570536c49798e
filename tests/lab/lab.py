# Copyright: (c) 2026, the vhpc.rdma authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Starts the whole lab in this process: one world, four faces, an inventory that says how to reach them."""

from __future__ import annotations

import datetime
import ipaddress
import json
import os
import socket
from pathlib import Path

import asyncssh
import yaml
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

from . import site
from .bmc.server import BmcFace
from .control import Control
from .esxi.server import EsxiFace
from .guest.server import GuestFace
from .vsphere.server import VsphereFace
from .world import World

SSH_PORT, HTTPS_PORT, CONTROL_PORT = 8022, 8443, 8009


def free_network() -> tuple[int, socket.socket]:
    """The first 127.L.0.0/16 no other lab on this machine uses; the listening socket is the claim (and the control port)."""
    for number in range(64, 250):
        claim = socket.socket()
        claim.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            claim.bind(("127.%d.0.1" % number, CONTROL_PORT))
            claim.listen(16)
            return number, claim
        except OSError:
            claim.close()
    raise SystemExit("No free loopback network for the lab: %d labs seem to run already. Try: make lab-stop" % (250 - 64))


def certificate(directory: Path, names: list[str]) -> tuple[Path, Path, Path]:
    """A throw-away CA and one server certificate for every HTTPS address of the lab: (ca, cert, key)."""
    now = datetime.datetime.now(datetime.timezone.utc)

    def build(subject: str, issuer: x509.Name | None, public, signer, ca: bool) -> x509.Certificate:
        name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, subject)])
        builder = (x509.CertificateBuilder().subject_name(name).issuer_name(issuer or name).public_key(public)
                   .serial_number(x509.random_serial_number()).not_valid_before(now - datetime.timedelta(hours=1))
                   .not_valid_after(now + datetime.timedelta(days=30)).add_extension(x509.BasicConstraints(ca, None), True)
                   .add_extension(x509.SubjectKeyIdentifier.from_public_key(public), False)
                   .add_extension(x509.AuthorityKeyIdentifier.from_issuer_public_key(signer.public_key()), False))
        if not ca:
            san = x509.SubjectAlternativeName([x509.DNSName("localhost")] + [x509.IPAddress(ipaddress.ip_address(n)) for n in names])
            builder = builder.add_extension(san, False).add_extension(x509.ExtendedKeyUsage([ExtendedKeyUsageOID.SERVER_AUTH]), False)
        else:
            usage = dict.fromkeys(("digital_signature", "content_commitment", "key_encipherment", "data_encipherment", "key_agreement",
                                   "crl_sign", "encipher_only", "decipher_only"), False)
            builder = builder.add_extension(x509.KeyUsage(key_cert_sign=True, **usage), True)
        return builder.sign(signer, hashes.SHA256())

    ca_key, key = ec.generate_private_key(ec.SECP256R1()), ec.generate_private_key(ec.SECP256R1())
    ca = build("vhpc.rdma rehearsal lab CA", None, ca_key.public_key(), ca_key, True)
    cert = build("vhpc.rdma rehearsal lab", ca.subject, key.public_key(), ca_key, False)
    paths = directory / "ca.pem", directory / "cert.pem", directory / "key.pem"
    paths[0].write_bytes(ca.public_bytes(serialization.Encoding.PEM))
    paths[1].write_bytes(cert.public_bytes(serialization.Encoding.PEM))
    _private(paths[2], key.private_bytes(serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()))
    return paths


def _private(path: Path, content: bytes) -> None:
    with open(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), "wb") as handle:
        handle.write(content)


class Lab:
    """with Lab(Path("build/lab"), hosts=4) as lab: lab.inventory is a file for ansible-playbook -i."""

    def __init__(self, directory: Path | str, hosts: int = 16, world: World | None = None) -> None:
        self.directory = Path(directory).absolute()
        self.world = world or site.build(hosts)
        self.inventory = self.directory / "inventory.yml"
        self._faces: list = []

    def __enter__(self) -> "Lab":
        self.start()
        return self

    def __exit__(self, *exc) -> None:
        self.stop()

    def start(self) -> None:
        self.directory.mkdir(parents=True, exist_ok=True)
        self.network, claim = free_network()
        self._addresses()
        world = self.world
        https = [world.vcenter["address"]] + [h.bmc.address for h in world.hosts.values() if h.bmc]
        self.ca, cert, key = certificate(self.directory, https)
        host_key, client = asyncssh.generate_private_key("ssh-ed25519"), asyncssh.generate_private_key("ssh-ed25519")
        self.client_key, server_key = self.directory / "id_ed25519", self.directory / "ssh_host_ed25519_key"
        _private(self.client_key, client.export_private_key())
        _private(server_key, host_key.export_private_key())
        public = self.directory / "id_ed25519.pub"
        public.write_bytes(client.export_public_key())
        self.known_hosts = self.directory / "known_hosts"
        line = host_key.export_public_key().decode().strip()
        targets = [(h.address, h.ssh_port) for h in world.hosts.values()] + [(v.guest.address, v.guest.port) for v in world.vms.values() if not v.vcls]
        self.known_hosts.write_text("".join("[%s]:%d %s\n" % (address, port, line) for address, port in targets))
        self._faces = [VsphereFace(world, self.directory, cert, key), EsxiFace(world, self.directory, public, server_key),
                       GuestFace(world, self.directory, public, server_key), BmcFace(world, cert, key), Control(world, claim)]
        for face in self._faces:
            face.start()
        self.inventory.write_text(yaml.safe_dump(self._inventory(), sort_keys=False))
        (self.directory / "lab.json").write_text(json.dumps({"pid": os.getpid(), "control": self.control, "inventory": str(self.inventory)}))

    def stop(self) -> None:
        # The control port comes last: it is the claim on the network, and the next lab starts on its addresses at once.
        for face in self._faces[-2::-1] + self._faces[-1:]:
            face.stop()
        self._faces = []
        (self.directory / "lab.json").unlink(missing_ok=True)

    @property
    def control(self) -> str:
        return "http://127.%d.0.1:%d" % (self.network, CONTROL_PORT)

    def _addresses(self) -> None:
        def address(net: int, number: int) -> str:
            return "127.%d.%d.%d" % (self.network, net + number // 250 * 8, number % 250 + 1)
        world = self.world
        world.vcenter.update(address="127.%d.0.2" % self.network, port=HTTPS_PORT)
        for number, host in enumerate(world.hosts.values()):
            host.address, host.ssh_port = address(1, number), SSH_PORT
            if host.bmc:
                host.bmc.address, host.bmc.port = address(3, number), HTTPS_PORT
        for number, vm in enumerate(v for v in world.vms.values() if not v.vcls):
            vm.guest.address, vm.guest.port = address(2, number), SSH_PORT
            vm.guest.root = str(self.directory / "guests" / vm.name)

    def _inventory(self) -> dict:
        world = self.world
        ssh = {"ansible_user": "root", "ansible_ssh_private_key_file": str(self.client_key), "ansible_ssh_pipelining": True,
               "ansible_ssh_common_args": "-o UserKnownHostsFile=%s -o GlobalKnownHostsFile=/dev/null -o StrictHostKeyChecking=yes" % self.known_hosts}
        paired = {vm.host: vm.name for vm in world.vms.values() if not vm.vcls}
        esxi = {}
        for h in world.hosts.values():
            esxi[h.name] = {"ansible_host": h.address, "ansible_port": h.ssh_port, "vhpc_vm": paired[h.name]}
            if h.bmc:
                esxi[h.name]["vhpc_bmc"] = {"baseuri": "%s:%d" % (h.bmc.address, h.bmc.port), "username": "root", "password": h.bmc.password,
                                            "ca_file": str(self.ca)}
        guests = {v.name: {"ansible_host": v.guest.address, "ansible_port": v.guest.port, "vhpc_host": v.host,
                           "guest_root": v.guest.root, "vhpc_roce_address": "192.168.5.%d/24" % (n + 1), "vhpc_ib_address": "192.168.4.%d/24" % (n + 1)}
                  for n, v in enumerate(v for v in world.vms.values() if not v.vcls)}
        vcenter = {"hostname": world.vcenter["address"], "port": world.vcenter["port"], "username": world.vcenter["username"],
                   "password": world.vcenter["password"], "ca_file": str(self.ca)}
        store = "/vmfs/volumes/%s/" % site.DATASTORE
        mft, nmst, driver = (store + path for path in site.FILES)
        return {"all": {
            "vars": {"vhpc_vcenter": vcenter, "vhpc_source": "simulated", "vhpc_reboot_ok": True, "vhpc_bios_set_ok": True, "vhpc_dvs_ok": True,
                     "esxi_mft_source": mft, "esxi_nmst_source": nmst, "esxi_driver_source": driver},
            "children": {"esxi": {"hosts": esxi, "vars": dict(ssh, ansible_python_interpreter="none")},
                         "guests": {"hosts": guests, "vars": dict(ssh, ansible_python_interpreter="/usr/bin/python3")}}}}
