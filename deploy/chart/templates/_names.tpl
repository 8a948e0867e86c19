{{- define "nodens.name" -}}
{{- default .Chart.Name .Values.nameOverride | trunc 63 | trimSuffix "-" -}}
{{- end -}}

{{/* The name of the objects: the release's where it says nodens already. */}}
{{- define "nodens.fullname" -}}
{{- $name := include "nodens.name" . -}}
{{- $made := ternary .Release.Name (printf "%s-%s" .Release.Name $name) (contains $name .Release.Name) -}}
{{- default $made .Values.fullnameOverride | trunc 63 | trimSuffix "-" -}}
{{- end -}}

{{- define "nodens.k8sApp" -}}
{{- default .Chart.Name .Values.k8sAppLabelOverride | trunc 63 | trimSuffix "-" -}}
{{- end -}}

{{- define "nodens.deployment" -}}
{{- default (include "nodens.fullname" .) .Values.deployment.name -}}
{{- end -}}

{{- define "nodens.serviceAccount" -}}
{{- default (ternary (include "nodens.fullname" .) "default" .Values.serviceAccount.create) .Values.serviceAccount.name -}}
{{- end -}}

{{- define "nodens.clusterRole" -}}
{{- default (include "nodens.fullname" .) .Values.clusterRole.nameOverride -}}
{{- end -}}

{{/* What tells this release's pods from others. */}}
{{- define "nodens.selector" -}}
app.kubernetes.io/name: {{ include "nodens.name" . }}
app.kubernetes.io/instance: {{ .Release.Name | quote }}
{{- if .Values.isClusterService }}
k8s-app: {{ include "nodens.k8sApp" . }}
{{- end }}
{{- end -}}

{{- define "nodens.labels" -}}
{{ include "nodens.selector" . }}
app.kubernetes.io/managed-by: {{ .Release.Service | quote }}
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
helm.sh/chart: {{ printf "%s-%s" .Chart.Name .Chart.Version | replace "+" "_" | quote }}
{{- with .Values.customLabels }}
{{ toYaml . }}
{{- end }}
{{- end -}}

{{/* The same with another name and another k8s-app, for what is not a DNS server. */}}
{{- define "nodens.autoscaler.selector" -}}
app.kubernetes.io/name: {{ include "nodens.name" . }}-autoscaler
app.kubernetes.io/instance: {{ .Release.Name | quote }}
{{- end -}}

{{- define "nodens.autoscaler.labels" -}}
{{ include "nodens.autoscaler.selector" . }}
app.kubernetes.io/managed-by: {{ .Release.Service | quote }}
helm.sh/chart: {{ printf "%s-%s" .Chart.Name .Chart.Version | replace "+" "_" | quote }}
{{- with .Values.customLabels }}
{{ toYaml . }}
{{- end }}
{{- end -}}

{{/* `annotations:` of an object: its own and those of all, or nothing. Call it with (list . OWN). */}}
{{- define "nodens.annotations" -}}
{{- $root := index . 0 -}}
{{- with merge (dict) (default dict (index . 1)) (default dict $root.Values.customAnnotations) -}}
annotations:
  {{- toYaml . | nindent 2 }}
{{- end -}}
{{- end -}}
