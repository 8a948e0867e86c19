#!/bin/sh
# Makes nodens the DNS server of a Kubernetes cluster. It needs sh, sed, awk and kubectl; `install.sh --help` tells the rest.
# shellcheck disable=SC2016 # the templates of kubectl have a $ of their own
set -eu

version=0.1.0
here=$(cd "$(dirname "$0")" && pwd)
# Several words are allowed: KUBECTL='k3s kubectl'.
KUBECTL=${KUBECTL:-kubectl}
namespace=kube-system

usage() {
    cat <<'END'
install.sh [OPTIONS] [SERVICE-CIDR] [DOMAIN]            prints the manifests
install.sh [OPTIONS] --apply [SERVICE-CIDR] [DOMAIN]    applies them and takes over from the running DNS server
install.sh [OPTIONS] --rollback                         gives the Service back to the server that had it

  -r, --reverse CIDR       reverse zone; again for more              in-addr.arpa ip6.arpa
  -i, --ip ADDRESS         address of the cluster's DNS              that of the Service, else what kubelets hand out
  -d, --domain DOMAIN      domain of the cluster                     what its DNS server or kubelets have, else cluster.local
  -t, --template FILE      template of the manifests                 manifests/nodens.yaml.sed beside this script
  -s, --skip-configmap     do not translate the ConfigMap kube-dns
  -h, --help               this text

      --corefile FILE      the Corefile                              see below
      --image IMAGE        the image                                 localhost/nodens:VERSION
      --replicas N         number of pods                            as many as serve now, or 2
      --service NAME       the DNS Service in kube-system            kube-dns
      --timeout DURATION   how long to wait for pods                 5m
      --dry-run            with --apply or --rollback: the API server checks everything, nothing changes
      --force              with --rollback: do not wait for the old pods

SERVICE-CIDR is the same as --reverse, DOMAIN the same as --domain. The Corefile is that of the ConfigMap nodens where there is one, else
the one that serves now, with all that is in its ConfigMap. Where CoreDNS does not serve, or a CIDR, a domain or a template is named,
it is that of the template (kubeadm's default), with the stub domains and upstream servers of the ConfigMap kube-dns where there is one.

--apply leaves the Service as it is until all pods are ready, then changes its selector and nothing else: the address stays, and so does
the old Deployment. kubectl's own settings count (KUBECONFIG), and KUBECTL names another: KUBECTL='k3s kubectl'.

Status: 0 done, 1 failed, 2 wrong use or an address that is not known.
END
}

say() { printf '%s\n' "$*" >&2; }

# fail STATUS WHAT HOW-TO-MEND
fail() {
    say "install.sh: $2"
    say "  $3"
    exit "$1"
}

# What takes long is waited for by itself, so no single request may hang.
kube() {
    # Several words.
    # shellcheck disable=SC2086
    $KUBECTL --request-timeout=20s "$@"
}

# get KIND NAME OUTPUT: nothing where there is no such object.
get() { kube -n "$namespace" get "$1" "$2" --ignore-not-found -o "$3"; }

# ---- the call

action=print
cidrs='' address='' domain='' template='' corefile='' image='' replicas='' service=kube-dns timeout=5m
translate=yes dry_run='' force=''

value() { [ $# -ge 2 ] || fail 2 "$1 needs a value" "install.sh --help lists the options."; }

positional=0
while [ $# -gt 0 ]; do
    case $1 in
    --*=*)
        option=${1%%=*} rest=${1#*=}
        shift
        set -- "$option" "$rest" "$@"
        ;;
    esac
    case $1 in
    -r | --reverse) value "$@"; cidrs="$cidrs $2"; shift 2 ;;
    -i | --ip) value "$@"; address=$2; shift 2 ;;
    -d | --domain) value "$@"; domain=$2; shift 2 ;;
    -t | --template) value "$@"; template=$2; shift 2 ;;
    --corefile) value "$@"; corefile=$2; shift 2 ;;
    --image) value "$@"; image=$2; shift 2 ;;
    --replicas) value "$@"; replicas=$2; shift 2 ;;
    --service) value "$@"; service=$2; shift 2 ;;
    --timeout) value "$@"; timeout=$2; shift 2 ;;
    -s | --skip-configmap) translate=''; shift ;;
    --apply) action=apply; shift ;;
    --rollback) action=rollback; shift ;;
    --dry-run) dry_run=--dry-run=server; shift ;;
    --force) force=yes; shift ;;
    -h | --help) usage; exit 0 ;;
    -*) fail 2 "unknown option $1" "install.sh --help lists the options." ;;
    *)
        positional=$((positional + 1))
        case $positional in
        1) cidrs="$cidrs $1" ;;
        2) domain=$1 ;;
        *) fail 2 "one word too many: $1" "SERVICE-CIDR and DOMAIN are all; install.sh --help lists the options." ;;
        esac
        shift
        ;;
    esac
done
cidrs=${cidrs# }
# On our Deployment: the labels that the Service selected before.
remembered=nodens/replaced-selector.$service

# An IPv4 address has four numbers up to 255; an IPv6 one is left to the API server.
is_address() {
    case $1 in
    *:*) return 0 ;;
    esac
    echo "$1" | awk -F. '{ for (i = 1; i <= NF; i++) if ($i !~ /^[0-9]+$/ || $i > 255) exit 1; exit NF != 4 }'
}

for cidr in $cidrs; do
    wrong=$cidr
    case $cidr in
    *[!0-9a-zA-Z.:/-]* | */*[!0-9]* | */) ;;
    *:*/*) [ "${cidr##*/}" -gt 128 ] || wrong='' ;;
    [0-9]*.*/*) ! is_address "${cidr%/*}" || [ "${cidr##*/}" -gt 32 ] || wrong='' ;;
    *.arpa | *.arpa.) wrong='' ;;
    esac
    [ -z "$wrong" ] || fail 2 "$wrong is no CIDR and no reverse zone" "Write it like 10.96.0.0/12, fd00::/108 or in-addr.arpa."
done
wrong=$address
case $address in
*[!0-9a-fA-F.:]*) ;;
*) if [ -z "$address" ] || is_address "$address"; then wrong=''; fi ;;
esac
[ -z "$wrong" ] || fail 2 "$wrong is no IP address" "Write it like 10.96.0.10."
case $domain in
*[!0-9a-zA-Z._-]* | .* | *..*) fail 2 "$domain is no domain" "Write it like cluster.local." ;;
esac
case $replicas in
*[!0-9]* | 0) fail 2 "--replicas $replicas is no number of pods" "Write a number of 1 or more." ;;
esac
for file in "$template" "$corefile"; do
    [ -z "$file" ] || [ -r "$file" ] || fail 2 "$file cannot be read" "Name a file that is there."
done
if [ "$action" = print ] && [ -n "$dry_run" ]; then
    fail 2 "--dry-run is for --apply and --rollback" "Without them manifests are printed and nothing changes."
fi

if [ -n "$corefile" ] && [ -n "$cidrs$domain$template" ]; then
    fail 2 "--corefile goes with no CIDR, domain or template" "The Corefile itself names the zones; a template holds one."
fi
program=${KUBECTL%% *}
if ! command -v "$program" >/dev/null 2>&1; then
    fail_kubectl="$program is not there"
elif ! said=$(kube get --raw /version 2>&1); then
    fail_kubectl="$KUBECTL does not reach the cluster: $said"
fi
# Manifests can be printed all the same, for an address that is given.
if [ -n "${fail_kubectl:-}" ]; then
    if [ "$action" != print ] || [ -z "$address" ]; then
        fail 2 "$fail_kubectl" \
            "Install or set up kubectl (KUBECONFIG, or KUBECTL='k3s kubectl'), or print for an address: install.sh -i 10.96.0.10"
    fi
    say "note: $fail_kubectl"
    kube() { return 1; }
fi

# ---- what the cluster is like

# The labels that the Service selects, as KEY=VALUE,KEY=VALUE.
selector() {
    get service "$service" 'go-template={{range $key, $value := .spec.selector}}{{$key}}={{$value}},{{end}}' | sed 's/,$//'
}

# as_json KEY=VALUE,KEY=VALUE
as_json() { printf '{"%s"}' "$1" | sed 's/=/":"/g; s/,/","/g'; }

# What kubelets hand to pods, where kubeadm has put it down: `clusterDomain: cluster.local`, `- 10.96.0.10` below `clusterDNS:`.
kubelet() { get configmap kubelet-config 'jsonpath={.data.kubelet}' 2>/dev/null || true; }

find_address() {
    found=$(get service "$service" 'jsonpath={.spec.clusterIP}') ||
        fail 2 "the address of the cluster's DNS is not known: kubectl cannot read the Service $service in $namespace" \
            "It says why above. Name the address: -i 10.96.0.10"
    [ -n "$found" ] || found=$(kubelet | sed -n '/^clusterDNS:/,/^[^ -]/s/^ *- *//p' | head -n 1 | tr -d "\"'")
    case $found in
    '') fail 2 "the address of the cluster's DNS is not known: there is no Service $service in $namespace" \
        "Name the address that kubelets hand out (\`clusterDNS\` of their configuration): -i 10.96.0.10" ;;
    None) fail 2 "the Service $service in $namespace has no address (clusterIP: None)" "Name the DNS Service: --service NAME" ;;
    esac
    address=$found
}

# Words of a list in JSON or of a command line, one a line.
words() { tr -c 'A-Za-z0-9=._:/-' '[\n*]'; }

find_domain() {
    domain=$({
        get configmap coredns 'jsonpath={.data.Corefile}' 2>/dev/null |
            sed -n 's/^[[:space:]]*kubernetes[[:space:]][[:space:]]*\([^[:space:]{]*\).*/\1/p'
        get deployment kube-dns 'jsonpath={.spec.template.spec.containers[*].args}' 2>/dev/null | words | sed -n 's/^--domain=//p'
        kubelet | sed -n 's/^clusterDomain: *//p'
        get configmap kubeadm-config 'jsonpath={.data.ClusterConfiguration}' 2>/dev/null | sed -n 's/^ *dnsDomain: *//p'
        echo cluster.local
    } | tr -d "\"'" | sed 's/\.$//' | grep . | head -n 1)
}

# For templates with the word SERVICE_CIDR: what was given, else what the API server hands addresses out of.
find_cidr() {
    service_cidr=$cidrs
    [ -n "$service_cidr" ] || service_cidr=$({
        kube get servicecidrs kubernetes -o 'jsonpath={.spec.cidrs[*]}{"\n"}' 2>/dev/null || true
        get configmap kubeadm-config 'jsonpath={.data.ClusterConfiguration}' 2>/dev/null | sed -n 's/^ *serviceSubnet: *//p'
        kube -n "$namespace" get pods -l component=kube-apiserver -o 'jsonpath={.items[*].spec.containers[*].command}' 2>/dev/null |
            tr ',' ' ' | words | sed -n 's/^--service-cluster-ip-range=//p'
    } | tr ',' ' ' | grep . | head -n 1) || true
    [ -n "$service_cidr" ] || fail 2 "the range of the Services' addresses is not known, and the template asks for it (SERVICE_CIDR)" \
        "Name it: install.sh 10.96.0.0/12"
}

# As many pods as serve now. A count of 0 is one that somebody has put to rest.
find_replicas() {
    [ -z "$replicas" ] || return 0
    replicas=$({
        [ -z "$now" ] || kube -n "$namespace" get deployments -l "$now" \
            -o 'jsonpath={range .items[*]}{.spec.replicas}{"\n"}{end}' 2>/dev/null || true
        echo 0
    } | awk '$1 > most { most = $1 } END { print most ? most : 2 }')
}

# The ConfigMap with the Corefile to serve.
find_corefile() {
    source=''
    [ -z "$cidrs$domain$template$corefile" ] || return 0
    names=$([ -z "$now" ] || kube -n "$namespace" get deployments,daemonsets -l "$now" \
        -o 'jsonpath={.items[*].spec.template.spec.volumes[*].configMap.name}' 2>/dev/null) || names=''
    # Our own comes first: somebody may have written in it.
    for name in nodens $names coredns; do
        if [ -n "$(get configmap "$name" 'jsonpath={.data.Corefile}' 2>/dev/null)" ]; then
            source=$name
            return 0
        fi
    done
}

# ---- the manifests

# List of strings in JSON, or of keys with such lists, from standard input: one line for each list, with its key first. Names and
# addresses hold nothing that JSON writes in another way.
lists() {
    tr -d ' \t\r\n' | awk '
        function wrong() { bad = 1; exit 1 }
        {
            text = $0
            keyed = sub(/^\{/, "", text)
            if (keyed && !sub(/\}$/, "", text)) wrong()
            while (text != "") {
                line = ""
                if (keyed) {
                    if (!match(text, /^"[A-Za-z0-9._-]+":/)) wrong()
                    line = substr(text, 2, RLENGTH - 3)
                    text = substr(text, RLENGTH + 1)
                }
                if (!match(text, /^\[[^]]*\]/)) wrong()
                list = substr(text, 2, RLENGTH - 2)
                text = substr(text, RLENGTH + 1)
                if (list !~ /^("[A-Za-z0-9.:_-]+"(,"[A-Za-z0-9.:_-]+")*)?$/) wrong()
                gsub(/"/, "", list)
                gsub(/,/, " ", list)
                print line (line == "" ? "" : " ") list
                if (text != "" && !sub(/^,/, "", text)) wrong()
            }
        }
        END { exit bad }'
}

# What the ConfigMap kube-dns says: `upstreams` for `forward`, `stubs` as server blocks.
translate_configmap() {
    upstreams=/etc/resolv.conf stubs=''
    [ -n "$translate" ] || return 0
    said=$(get configmap kube-dns 'jsonpath={.data.upstreamNameservers}' 2>/dev/null) || said=''
    if [ -n "$said" ]; then
        said=$(printf '%s\n' "$said" | lists) || fail 1 "upstreamNameservers of the ConfigMap kube-dns is no list of addresses" \
            "Write it like [\"192.0.2.1\", \"192.0.2.2\"], or leave the ConfigMap out: -s"
        [ -z "$said" ] || upstreams=$said
    fi
    said=$(get configmap kube-dns 'jsonpath={.data.stubDomains}' 2>/dev/null) || said=''
    [ -n "$said" ] || return 0
    said=$(printf '%s\n' "$said" | lists) || fail 1 "stubDomains of the ConfigMap kube-dns does not name domains and lists of addresses" \
        "Write it like {\"example.com\": [\"192.0.2.1\"]}, or leave the ConfigMap out: -s"
    stubs=$(printf '%s\n' "$said" | awk 'NF > 1 {
        servers = $0
        sub(/^[^ ]* /, "", servers)
        printf "\n    %s:53 {\n        errors\n        cache 30\n        loop\n", $1
        printf "        forward . %s {\n            max_concurrent 1000\n        }\n    }", servers
    }')
}

# The data of our ConfigMap, where it is not the template's: a file, or all keys of the ConfigMap that serves now.
data() {
    if [ -n "$corefile" ]; then
        printf '  Corefile: |2\n'
        awk '{ print "    " $0 }' "$corefile"
        return
    fi
    for key in $(get configmap "$source" 'go-template={{range $key, $value := .data}}{{$key}} {{end}}'); do
        case $key in
        # kubeadm leaves the first behind; k3s keeps the second up to date, so the pods read it from there.
        Corefile-backup | NodeHosts) continue ;;
        esac
        printf '  %s: |2\n' "$key"
        get configmap "$source" "go-template={{index .data \"$key\"}}" | awk '{ print "    " $0 }'
    done
}

# The template with its words filled in, and the data of the ConfigMap changed for what is in the file `kept`, where there is one.
render() {
    ADDRESS=$address DOMAIN=$domain REVERSE=${cidrs:-in-addr.arpa ip6.arpa} CIDR=$service_cidr STUBS=$stubs UPSTREAMS=$upstreams \
        IMAGE=$image REPLICAS=$replicas SERVICE=$service KEPT=$kept awk '
        function fill(word, text,    at, before) {
            before = ""
            while ((at = index($0, word)) > 0) {
                before = before substr($0, 1, at - 1) text
                $0 = substr($0, at + length(word))
            }
            $0 = before $0
        }
        BEGIN { kept = ENVIRON["KEPT"] }
        /^---/ { kind = ""; inside = 0 }
        /^kind: / { kind = $2 }
        kind == "ConfigMap" && kept != "" && /^data:/ {
            print
            while ((getline line < kept) > 0) print line
            inside = 1
        }
        inside { next }
        kind == "Service" && /^  name: kube-dns$/ { $0 = "  name: " ENVIRON["SERVICE"] }
        !/^#/ {
            fill("CLUSTER_DNS_IP", ENVIRON["ADDRESS"])
            fill("CLUSTER_DOMAIN", ENVIRON["DOMAIN"])
            fill("REVERSE_CIDRS", ENVIRON["REVERSE"])
            fill("SERVICE_CIDR", ENVIRON["CIDR"])
            fill("UPSTREAMNAMESERVER", ENVIRON["UPSTREAMS"])
            fill("NODENS_IMAGE", ENVIRON["IMAGE"])
            fill("NODENS_REPLICAS", ENVIRON["REPLICAS"])
            fill("STUBDOMAINS", ENVIRON["STUBS"])
        }
        { print }' "$template"
}

prepare() {
    now=$(selector 2>/dev/null) || now=''
    [ -n "$address" ] || find_address
    find_corefile
    kept='' upstreams='' stubs='' service_cidr=''
    if [ -n "$source$corefile" ]; then
        # A ConfigMap may hold more than an argument or a variable of the environment.
        kept=$(mktemp)
        trap 'rm -f "$kept"' EXIT
        data > "$kept"
        from=${corefile:-that of the ConfigMap $source}
    else
        [ -n "$domain" ] || find_domain
        translate_configmap
        from="the template's, for $domain"
    fi
    template=${template:-$here/manifests/nodens.yaml.sed}
    ! grep -v '^#' "$template" | grep -q SERVICE_CIDR || find_cidr
    image=${image:-localhost/nodens:$version}
    find_replicas
    say "address $address, $replicas pods of $image, Corefile: $from"
}

# ---- taking over, and back

# Documents of all kinds but Service.
but_service() {
    awk '
        function out() { if (!service) printf "%s", text; text = ""; service = 0 }
        /^---/ { out() }
        /^kind: Service$/ { service = 1 }
        { text = text $0 "\n" }
        END { out() }'
}

# point LABELS-NOW LABELS-THEN: the API server does it only if address and labels are still those that we know.
point() {
    kube -n "$namespace" patch service "$service" --type=json ${dry_run:+"$dry_run"} -p "[
        {\"op\": \"test\", \"path\": \"/spec/clusterIP\", \"value\": \"$address\"},
        {\"op\": \"test\", \"path\": \"/spec/selector\", \"value\": $(as_json "$1")},
        {\"op\": \"replace\", \"path\": \"/spec/selector\", \"value\": $(as_json "$2")}]" >&2 ||
        fail 1 "the Service $service was not changed" "What the API server says stands above; run the same command again."
}

# Whoever may write the Service back, as its labels tell.
warn_of_owners() {
    owner=$(get service "$service" 'jsonpath={.metadata.labels}{.metadata.annotations}')
    case $owner in
    *'"addonmanager.kubernetes.io/mode":"Reconcile"'*)
        say "note: the addon manager will put the old selector back; change its manifest on the control plane too (docs/migrate.md)" ;;
    *'"objectset.rio.cattle.io/'*)
        say "note: k3s will put the old selector back when it starts, unless its manifest is skipped (docs/migrate.md)" ;;
    *'"app.kubernetes.io/managed-by":"Helm"'*)
        say "note: Helm will put the old selector back at the next upgrade of that release (docs/migrate.md)" ;;
    esac
    policies=$(kube get networkpolicies --all-namespaces -o \
        'jsonpath={range .items[*]}{.metadata.namespace}/{.metadata.name} {.spec}{"\n"}{end}' 2>/dev/null |
        grep -F "$(as_json "$1" | tr -d '{}' | cut -d, -f1)" | cut -d' ' -f1 | tr '\n' ' ') || true
    [ -z "$policies" ] || say "note: these NetworkPolicies name the old pods; let them name k8s-app: nodens too: $policies"
}

# Names of ports that are not ours lead nowhere.
check_ports() {
    for port in $(get service "$service" 'jsonpath={.spec.ports[*].targetPort}'); do
        case $port in
        53 | 9153 | dns | dns-tcp | metrics) ;;
        *) fail 1 "the Service $service sends to port $port, which nodens does not have" \
            "Give the container in $template such a port, or change the Service's targetPort to 53." ;;
        esac
    done
}

apply() {
    given=$address
    address=''
    before=''
    exists=$(get service "$service" 'jsonpath={.spec.clusterIP}') || fail 1 "kubectl does not reach the cluster" "It says why above."
    if [ -n "$exists" ]; then
        find_address
        [ -z "$given" ] || [ "$given" = "$address" ] ||
            fail 1 "the Service $service has the address $address, not $given" "An address cannot be changed; leave -i out."
        before=$(selector)
        [ -n "$before" ] || fail 1 "the Service $service selects no pods" "Its endpoints are made by hand; give it a selector first."
    fi
    [ -n "$address" ] || address=$given
    prepare
    if [ -n "$exists" ]; then
        check_ports
        [ "$before" = k8s-app=nodens ] || warn_of_owners "$before"
    fi

    what=$(render)
    deployments=$(printf '%s\n' "$what" | awk '/^kind: / { kind = $2 } kind == "Deployment" && /^  name: / { print $2 }')
    [ "$deployments" = nodens ] || fail 1 "the template's Deployment is called $deployments, and --apply waits for one called nodens" \
        "Change its name, so that the one that runs is left alone, or print the manifests and apply them yourself."
    [ -z "$exists" ] || what=$(printf '%s\n' "$what" | but_service)
    # On the server's side no second copy of a large ConfigMap has to fit into its annotations.
    printf '%s\n' "$what" | kube apply --server-side --force-conflicts ${dry_run:+"$dry_run"} -f - >&2 ||
        fail 1 "not all objects were applied; the Service $service is as it was" "What the API server says stands above."

    if [ -z "$exists" ]; then
        [ -n "$dry_run" ] || wait_for nodens
        say "nodens is the DNS server at $address."
        return
    fi
    if [ "$before" != k8s-app=nodens ] && [ -z "$dry_run" ]; then
        kube -n "$namespace" annotate deployment nodens --overwrite "$remembered=$before" >&2
    fi
    [ -n "$dry_run" ] || wait_for nodens
    if [ "$before" = k8s-app=nodens ]; then
        say "nodens is the DNS server at $address, as it was."
        return
    fi
    point "$before" k8s-app=nodens
    if [ -n "$dry_run" ]; then
        say "Nothing was changed."
        return
    fi
    say "nodens is the DNS server at $address. The old one runs on; back to it: install.sh --rollback"
}

wait_for() {
    # It watches for as long as it may, so without our limit for one request.
    # shellcheck disable=SC2086
    $KUBECTL -n "$namespace" rollout status "deployment/$1" --timeout="$timeout" >&2 && return
    kube -n "$namespace" get pods -l "k8s-app=$1" >&2 || true
    fail 1 "not all pods of $1 were ready within $timeout; the Service $service is as it was" \
        "See why: $KUBECTL -n $namespace describe pods -l k8s-app=$1, and logs -l k8s-app=$1. Then run the same command again."
}

# How many pods behind labels are ready, as their controllers or they themselves say.
ready() {
    {
        kube -n "$namespace" get deployments,daemonsets -l "$1" \
            -o 'jsonpath={range .items[*]}{.status.readyReplicas} {.status.numberReady}{"\n"}{end}' 2>/dev/null || true
        kube -n "$namespace" get pods -l "$1" \
            -o 'jsonpath={range .items[*]}{.status.conditions[?(@.type=="Ready")].status}{"\n"}{end}' 2>/dev/null | grep -c True
    } | tr ' ' '\n' | awk '$1 > most { most = $1 } END { print most + 0 }'
}

rollback() {
    now=$(selector) || fail 1 "kubectl does not read the Service $service in $namespace" "It says why above."
    [ "$now" = k8s-app=nodens ] || fail 1 "the Service $service selects ${now:-nothing}, not nodens" "There is nothing to go back from."
    before=$(kube -n "$namespace" get deployment nodens --ignore-not-found \
        -o "go-template={{with .metadata.annotations}}{{index . \"$remembered\"}}{{end}}" | sed 's/^<no value>$//')
    [ -n "$before" ] || fail 1 "the Deployment nodens does not say whom the Service selected before" \
        "Do it by hand: $KUBECTL -n $namespace patch service $service --type=json -p '[{\"op\":\"replace\",\"path\":\"/spec/selector\",\"value\":{\"k8s-app\":\"kube-dns\"}}]'"
    address=$(get service "$service" 'jsonpath={.spec.clusterIP}')
    if [ -z "$force" ] && [ "$(ready "$before")" = 0 ]; then
        fail 1 "no pod with $before is ready; the Service $service is as it was" \
            "Start the old server ($KUBECTL -n $namespace get deployments -l $before; ... scale deployment NAME --replicas=2), or go back all the same: --force"
    fi
    point k8s-app=nodens "$before"
    if [ -n "$dry_run" ]; then
        say "Nothing was changed."
        return
    fi
    say "The old server is the DNS server at $address again. nodens runs on; $KUBECTL -n $namespace delete deployment nodens ends it."
}

case $action in
print)
    prepare
    render
    ;;
apply) apply ;;
rollback) rollback ;;
esac
