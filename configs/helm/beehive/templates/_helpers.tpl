{{- define "beehive.selector" -}}
app.kubernetes.io/name: beehive
app.kubernetes.io/component: cloud
{{- end -}}

{{- define "beehive.labels" -}}
{{ include "beehive.selector" . }}
app.kubernetes.io/instance: {{ .Release.Name }}
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .Release.Service }}
helm.sh/chart: {{ .Chart.Name }}-{{ .Chart.Version }}
{{- end -}}

{{- define "beehive.image" -}}
{{- if .Values.image.digest -}}
{{ .Values.image.repository }}@{{ .Values.image.digest }}
{{- else -}}
{{ .Values.image.repository }}:{{ .Values.image.tag | default .Chart.AppVersion }}
{{- end -}}
{{- end -}}

{{- /* cloud.yaml: what the chart knows, and what .Values.config says over it. */ -}}
{{- define "beehive.config" -}}
{{- $register := dict -}}
{{- if .Values.webhook.enabled -}}
{{- $register = dict "service" "beehive-admission" "namespace" .Release.Namespace "servicePort" 443 -}}
{{- end -}}
{{- $known := dict
  "runtime" (dict "data" "/var/lib/beehive" "logFormat" "json" "admin" (dict "address" "0.0.0.0" "port" 10350))
  "informer" (dict "namespace" .Release.Namespace)
  "cloudhub" (dict "websocket" (dict "port" 10000) "https" (dict "port" 10002) "advertise" .Values.hub.advertise)
  "admission" (dict "port" 9443 "register" $register)
-}}
{{- toYaml (mergeOverwrite $known (deepCopy .Values.config)) -}}
{{- end -}}

{{- /* The shipped manifests are the one source; only the namespace and the labels are of the release. */ -}}
{{- define "beehive.shipped" -}}
{{- .text | replace "namespace: kubeedge" (printf "namespace: %s" .root.Release.Namespace) -}}
{{- end -}}
