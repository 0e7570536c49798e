// Copyright: (c) 2026, the vhpc.rdma authors
// GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
// SPDX-License-Identifier: GPL-3.0-or-later

// Starts govmomi's simulator with a certificate of ours, prints where it listens, and ends with its standard input.
package main

import (
	"crypto/tls"
	"flag"
	"fmt"
	"io"
	"log"
	"net/url"
	"os"

	"github.com/vmware/govmomi/simulator"
)

func main() {
	hosts := flag.Int("hosts", 3, "hosts of the cluster, with a VM for each")
	esx := flag.Bool("esx", false, "be one ESXi host, not a vCenter")
	api := flag.String("api", "7.0.3.0", "version of the API to advertise: the simulator's own is older than the client accepts")
	user := flag.String("user", "operator", "the only user")
	cert, key := flag.String("cert", "", "certificate (PEM)"), flag.String("key", "", "its key (PEM)")
	flag.Parse()

	pair, err := tls.LoadX509KeyPair(*cert, *key)
	if err != nil {
		log.Fatal(err)
	}
	model := simulator.VPX()
	model.Cluster, model.ClusterHost, model.Host, model.Machine = 1, *hosts, 0, *hosts
	if *esx {
		model = simulator.ESX()
	}
	model.ServiceContent.About.ApiVersion = *api
	if err := model.Create(); err != nil {
		log.Fatal(err)
	}
	defer model.Remove()
	model.Service.Listen = &url.URL{Host: "127.0.0.1:0", User: url.UserPassword(*user, os.Getenv("VCSIM_PASSWORD"))}
	model.Service.TLS = &tls.Config{Certificates: []tls.Certificate{pair}}
	server := model.Service.NewServer()
	defer server.Close()
	fmt.Println(server.URL.Host)
	if _, err := io.Copy(io.Discard, os.Stdin); err != nil {
		log.Print(err)
	}
}
