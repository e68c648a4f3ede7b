{{- define "guildhall.name" -}}
{{- if contains .Chart.Name .Release.Name -}}
{{- .Release.Name | trunc 63 | trimSuffix "-" -}}
{{- else -}}
{{- printf "%s-%s" .Release.Name .Chart.Name | trunc 63 | trimSuffix "-" -}}
{{- end -}}
{{- end -}}

{{- define "guildhall.selector" -}}
app.kubernetes.io/name: {{ .Chart.Name }}
app.kubernetes.io/instance: {{ .Release.Name }}
{{- end -}}

{{- define "guildhall.labels" -}}
{{ include "guildhall.selector" . }}
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .Release.Service }}
helm.sh/chart: {{ printf "%s-%s" .Chart.Name .Chart.Version }}
{{- end -}}

{{- /* Not empty: several nodes, with all that they need. */ -}}
{{- define "guildhall.clustered" -}}
{{- if gt (int .Values.replicas) 1 -}}
{{- if not (or .Values.existingSecret (and .Values.cluster.natsUrl .Values.cluster.databaseUrl)) -}}
{{- fail "replicas above 1 need cluster.natsUrl and cluster.databaseUrl, or existingSecret with GUILDHALL__CLUSTER__NATS_URL and GUILDHALL__STORE__URL: without them each node would be another, empty community" -}}
{{- end -}}
{{- $uploads := .Values.settings.uploads | default dict -}}
{{- if not (or $uploads.url (eq (toString $uploads.mode) "off")) -}}
{{- fail "replicas above 1 need settings.uploads.url, a bucket of all nodes, or settings.uploads.mode: \"off\"" -}}
{{- end -}}
true
{{- end -}}
{{- end -}}
