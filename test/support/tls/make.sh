#!/usr/bin/env bash
# Makes the certificates of the tests again: an authority, servers for 127.0.0.1 and names, an expired one, one of a stranger, a client.
set -euo pipefail
cd "$(dirname "$0")"
key() { openssl ecparam -name prime256v1 -genkey -noout -out "$1.key"; }
sign() { # name authority days-from days-to extensions
  openssl req -new -key "$1.key" -subj "/CN=Trunkline test $1" -out "$1.csr"
  printf '%b' "$5" >"$1.ext"
  : >index.txt && openssl rand -hex 8 >serial
  openssl ca -batch -notext -in "$1.csr" -extfile "$1.ext" -out "$1.pem" $([ "$1" = "$2" ] && echo -selfsign || echo "-cert $2.pem") \
    -keyfile "$2.key" -startdate "$(date -u -d "$3 days" +%Y%m%d%H%M%SZ)" -enddate "$(date -u -d "$4 days" +%Y%m%d%H%M%SZ)" \
    -config <(printf '[ca]\ndefault_ca=d\n[d]\ndatabase=index.txt\nnew_certs_dir=.\nserial=serial\ndefault_md=sha256\npolicy=p\n[p]\ncommonName=supplied\n') 2>/dev/null
  rm -f "$1.csr" "$1.ext" index.txt* serial* ./[0-9A-F]*[0-9A-F].pem
}
authority() { key "$1" && sign "$1" "$1" -7000 36500 'basicConstraints=critical,CA:TRUE\nkeyUsage=critical,keyCertSign\nsubjectKeyIdentifier=hash\n'; }
leaf() { key "$1" && sign "$1" "$2" "$3" "$4" "subjectAltName=$5\nextendedKeyUsage=serverAuth,clientAuth\n"; }
authority authority
authority stranger
leaf server authority -7000 36000 'IP:127.0.0.1,DNS:localhost'
leaf carrier authority -7000 36000 'DNS:carrier.example,URI:sip:domain.example'
leaf expired authority -7000 -6000 'IP:127.0.0.1,DNS:localhost'
leaf client authority -7000 36000 'DNS:client.example'
leaf foreign stranger -7000 36000 'IP:127.0.0.1,DNS:localhost'
rm -f authority.key stranger.key
