# Copyright: (c) 2026, the vhpc.rdma authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""A vCenter of the lab for work on modules: python -m lab.vsphere --hosts 4 --port 18443 --dir DIR."""

from __future__ import annotations

import argparse
import datetime
import ipaddress
import os
import threading

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

from ..site import build
from .server import VsphereFace


def certificate(directory: str, address: str = "127.0.0.1") -> tuple[str, str]:
    """A self-signed certificate for the address and localhost; returns the paths of certificate and key."""
    cert, key = os.path.join(directory, "cert.pem"), os.path.join(directory, "key.pem")
    if os.path.exists(cert) and os.path.exists(key):
        return cert, key
    os.makedirs(directory, exist_ok=True)
    private = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "vcenter.lab")])
    now = datetime.datetime.now(datetime.timezone.utc)
    names = [x509.DNSName("localhost"), x509.DNSName("vcenter.lab"), x509.IPAddress(ipaddress.ip_address(address))]
    made = (x509.CertificateBuilder().subject_name(name).issuer_name(name).public_key(private.public_key()).serial_number(x509.random_serial_number())
            .not_valid_before(now - datetime.timedelta(days=1)).not_valid_after(now + datetime.timedelta(days=365))
            .add_extension(x509.SubjectAlternativeName(names), False).add_extension(x509.BasicConstraints(ca=True, path_length=0), True)
            .sign(private, hashes.SHA256()))
    with open(key, "wb") as stream:
        os.fchmod(stream.fileno(), 0o600)
        stream.write(private.private_bytes(serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()))
    with open(cert, "wb") as stream:
        stream.write(made.public_bytes(serialization.Encoding.PEM))
    return cert, key


def main() -> None:
    parser = argparse.ArgumentParser(description="vCenter of the rehearsal lab, alone")
    parser.add_argument("--hosts", type=int, default=4)
    parser.add_argument("--address", default="127.0.0.1")
    parser.add_argument("--port", type=int, default=18443)
    parser.add_argument("--dir", required=True, help="where the certificate is kept")
    parser.add_argument("--version", default="8.0.3.0", help="API version to offer")
    parser.add_argument("--strict", action="store_true", help="refuse what is not modelled")
    parser.add_argument("--task-delay", type=float, default=0.0)
    options = parser.parse_args()
    world = build(options.hosts)
    world.vcenter.update(address=options.address, port=options.port, version=options.version)
    cert, key = certificate(options.dir, options.address)
    with VsphereFace(world, options.dir, cert, key, strict=options.strict, task_delay=options.task_delay) as face:
        print("hostname: %s  port: %d  username: %s  password: %s  ca_file: %s\nhosts: %s\nvms: %s" % (
            options.address, face.port, world.vcenter["username"], world.vcenter["password"], os.path.abspath(cert), " ".join(world.hosts),
            " ".join(world.vms)), flush=True)
        try:
            threading.Event().wait()
        except KeyboardInterrupt:
            pass


if __name__ == "__main__":
    main()
