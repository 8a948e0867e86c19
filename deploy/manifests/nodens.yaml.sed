# nodens as the DNS server of a cluster. install.sh fills in the words in capitals; nodens.yaml is what it prints for kubeadm's
# defaults. None of these objects has a label `k8s-app: kube-dns` but the Service: kubeadm reads a CoreDNS version from the image of
# every Deployment that has it, and the selector of the Service can then name either the old pods or the new ones.
apiVersion: v1
kind: ServiceAccount
metadata:
  name: nodens
  namespace: kube-system
  labels:
    k8s-app: nodens
---
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRole
metadata:
  name: nodens
  labels:
    k8s-app: nodens
rules:
- apiGroups: [""]
  resources: [services, namespaces, pods]
  verbs: [list, watch]
- apiGroups: [discovery.k8s.io]
  resources: [endpointslices]
  verbs: [list, watch]
# For zones of `multicluster` alone.
- apiGroups: [multicluster.x-k8s.io]
  resources: [serviceimports]
  verbs: [list, watch]
---
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRoleBinding
metadata:
  name: nodens
  labels:
    k8s-app: nodens
roleRef:
  apiGroup: rbac.authorization.k8s.io
  kind: ClusterRole
  name: nodens
subjects:
- kind: ServiceAccount
  name: nodens
  namespace: kube-system
---
apiVersion: v1
kind: ConfigMap
metadata:
  name: nodens
  namespace: kube-system
  labels:
    k8s-app: nodens
data:
  Corefile: |
    .:53 {
        errors
        health {
            lameduck 5s
        }
        ready
        kubernetes CLUSTER_DOMAIN REVERSE_CIDRS {
            pods insecure
            fallthrough in-addr.arpa ip6.arpa
            ttl 30
        }
        prometheus :9153
        forward . UPSTREAMNAMESERVER {
            max_concurrent 1000
        }
        cache 30 {
            disable success CLUSTER_DOMAIN
            disable denial CLUSTER_DOMAIN
        }
        loop
        reload
        loadbalance
    }STUBDOMAINS
---
apiVersion: apps/v1
kind: Deployment
metadata:
  name: nodens
  namespace: kube-system
  labels:
    k8s-app: nodens
    app.kubernetes.io/name: nodens
spec:
  replicas: NODENS_REPLICAS
  strategy:
    type: RollingUpdate
    rollingUpdate:
      # Never fewer than wanted: the new pod answers before an old one goes.
      maxUnavailable: 0
      maxSurge: 1
  selector:
    matchLabels:
      k8s-app: nodens
  template:
    metadata:
      labels:
        k8s-app: nodens
        app.kubernetes.io/name: nodens
    spec:
      serviceAccountName: nodens
      priorityClassName: system-cluster-critical
      # The node's resolv.conf, for `forward . /etc/resolv.conf`.
      dnsPolicy: Default
      # Longer than `lameduck` and the answers after it.
      terminationGracePeriodSeconds: 30
      nodeSelector:
        kubernetes.io/os: linux
      tolerations:
      - key: CriticalAddonsOnly
        operator: Exists
      - key: node-role.kubernetes.io/control-plane
        effect: NoSchedule
      topologySpreadConstraints:
      - topologyKey: kubernetes.io/hostname
        maxSkew: 1
        whenUnsatisfiable: ScheduleAnyway
        labelSelector:
          matchLabels:
            k8s-app: nodens
      - topologyKey: topology.kubernetes.io/zone
        maxSkew: 1
        whenUnsatisfiable: ScheduleAnyway
        labelSelector:
          matchLabels:
            k8s-app: nodens
      securityContext:
        runAsNonRoot: true
        runAsUser: 65532
        runAsGroup: 65532
        # io_uring is not in the runtime's list. With deploy/seccomp/nodens.json as /var/lib/kubelet/seccomp/nodens.json on every
        # node (deploy/README.md) it may be used; then write:
        #   type: Localhost
        #   localhostProfile: nodens.json
        seccompProfile:
          type: RuntimeDefault
      containers:
      - name: nodens
        image: NODENS_IMAGE
        imagePullPolicy: IfNotPresent
        args: [-conf, /etc/coredns/Corefile]
        ports:
        - {name: dns, containerPort: 53, protocol: UDP}
        - {name: dns-tcp, containerPort: 53, protocol: TCP}
        - {name: metrics, containerPort: 9153, protocol: TCP}
        - {name: liveness-probe, containerPort: 8080, protocol: TCP}
        - {name: readiness-probe, containerPort: 8181, protocol: TCP}
        livenessProbe:
          httpGet: {path: /health, port: liveness-probe}
          initialDelaySeconds: 60
          timeoutSeconds: 5
          failureThreshold: 5
        readinessProbe:
          httpGet: {path: /ready, port: readiness-probe}
        resources:
          requests:
            cpu: 100m
            memory: 70Mi
          # No limit of CPU: it would cost answers just when there are many questions.
          limits:
            memory: 170Mi
        securityContext:
          allowPrivilegeEscalation: false
          readOnlyRootFilesystem: true
          capabilities:
            drop: [ALL]
            add: [NET_BIND_SERVICE]
        volumeMounts:
        - {name: config, mountPath: /etc/coredns, readOnly: true}
        - {name: custom, mountPath: /etc/coredns/custom, readOnly: true}
      volumes:
      - name: config
        projected:
          sources:
          - configMap:
              name: nodens
          # The nodes' names, which k3s keeps in the ConfigMap of its CoreDNS and its Corefile reads.
          - configMap:
              name: coredns
              optional: true
              items:
              - {key: NodeHosts, path: NodeHosts}
      # What the Corefiles of k3s and AKS import, where there is such a ConfigMap.
      - name: custom
        configMap:
          name: coredns-custom
          optional: true
---
apiVersion: policy/v1
kind: PodDisruptionBudget
metadata:
  name: nodens
  namespace: kube-system
  labels:
    k8s-app: nodens
spec:
  maxUnavailable: 1
  selector:
    matchLabels:
      k8s-app: nodens
---
apiVersion: v1
kind: Service
metadata:
  name: kube-dns
  namespace: kube-system
  annotations:
    prometheus.io/port: "9153"
    prometheus.io/scrape: "true"
  labels:
    k8s-app: kube-dns
    kubernetes.io/cluster-service: "true"
    kubernetes.io/name: CoreDNS
spec:
  clusterIP: CLUSTER_DNS_IP
  selector:
    k8s-app: nodens
  ports:
  - {name: dns, port: 53, protocol: UDP}
  - {name: dns-tcp, port: 53, protocol: TCP}
  - {name: metrics, port: 9153, protocol: TCP}
