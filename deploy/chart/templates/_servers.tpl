{{/* The Corefile. */}}
{{- define "nodens.corefile" -}}
{{- range $name, $directive := .Values.extraConfig }}
{{ $name }}{{ with $directive.parameters }} {{ . }}{{ end }}
{{- end }}
{{- range $server := .Values.servers }}
{{- $keys := list }}
{{- range default (list dict) $server.zones }}
{{- $port := ternary (printf ":%v" $server.port) "" (not (empty $server.port)) }}
{{- $keys = append $keys (printf "%s%s%s" (default "" .scheme) (default "." .zone) $port) }}
{{- end }}
{{ join " " $keys }} {
  {{- range $server.plugins }}
    {{ .name }}
    {{- if not (kindIs "invalid" .parameters) }} {{ .parameters }}{{ end }}
    {{- if .configBlock }} {
        {{- .configBlock | nindent 8 }}
    }
    {{- end }}
  {{- end }}
}
{{- end }}
{{- end -}}

{{/* The ports of all servers, each once, as JSON: {"53": {"udp": true, "tcp": true, ...}}. */}}
{{- define "nodens.ports" -}}
{{- $ports := dict -}}
{{- range $server := .Values.servers -}}
  {{- $number := default 53 $server.port | toString -}}
  {{- $port := default dict (get $ports $number) -}}
  {{- range default (list dict) $server.zones -}}
    {{- $scheme := default "dns://" .scheme -}}
    {{- if or (eq $scheme "quic://") (eq $scheme "dns://") -}}
      {{- $_ := set $port "udp" true -}}
    {{- end -}}
    {{- if and (ne $scheme "quic://") (or (ne $scheme "dns://") (not (hasKey . "use_tcp")) .use_tcp) -}}
      {{- $_ := set $port "tcp" true -}}
    {{- end -}}
  {{- end -}}
  {{- range $key := list "servicePort" "nodePort" "hostPort" -}}
    {{- with get $server $key -}}{{- $_ := set $port $key . -}}{{- end -}}
  {{- end -}}
  {{- $_ := set $ports $number $port -}}
{{- end -}}
{{- toJson $ports -}}
{{- end -}}

{{/* The port of metrics, where a server shows them on more than the pod's own loopback. */}}
{{- define "nodens.metricsPort" -}}
{{- range .Values.servers -}}
  {{- range .plugins -}}
    {{- if and (eq .name "prometheus") .parameters -}}
      {{- $address := .parameters | toString | splitList " " | first -}}
      {{- if not (or (hasPrefix "localhost" $address) (hasPrefix "127." $address)) -}}
        {{- $address | splitList ":" | last }} {{ end -}}
    {{- end -}}
  {{- end -}}
{{- end -}}
{{- end -}}

{{- define "nodens.containerPorts" -}}
{{- $metrics := include "nodens.metricsPort" . | splitList " " | first -}}
{{- range $number, $port := include "nodens.ports" . | fromJson }}
{{- range $protocol := list "udp" "tcp" }}
{{- if get $port $protocol }}
- name: {{ $protocol }}-{{ $number }}
  containerPort: {{ $number }}
  protocol: {{ upper $protocol }}
  {{- with $port.hostPort }}
  hostPort: {{ . }}
  {{- end }}
{{- end }}
{{- end }}
{{- end }}
{{- if $metrics }}
- name: tcp-{{ $metrics }}
  containerPort: {{ $metrics }}
  protocol: TCP
{{- end }}
{{- end -}}

{{- define "nodens.servicePorts" -}}
{{- range $number, $port := include "nodens.ports" . | fromJson }}
{{- range $protocol := list "udp" "tcp" }}
{{- if get $port $protocol }}
- name: {{ $protocol }}-{{ $number }}
  port: {{ default $number $port.servicePort }}
  targetPort: {{ $number }}
  protocol: {{ upper $protocol }}
  {{- with $port.nodePort }}
  nodePort: {{ . }}
  {{- end }}
{{- end }}
{{- end }}
{{- end }}
{{- end -}}
