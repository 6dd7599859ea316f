{{- /* The release's name; with the chart's, where it does not say it. */ -}}
{{- define "pagoda.name" -}}
{{- if contains .Chart.Name .Release.Name }}{{ .Release.Name }}{{ else }}{{ .Release.Name }}-{{ .Chart.Name }}{{ end }}
{{- end }}

{{- /* Two releases of one namespace must not take each other's pods. */ -}}
{{- define "pagoda.selector" -}}
app.kubernetes.io/name: {{ .Chart.Name }}
app.kubernetes.io/instance: {{ .Release.Name }}
{{- end }}

{{- define "pagoda.labels" -}}
{{ include "pagoda.selector" . }}
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .Release.Service }}
helm.sh/chart: {{ .Chart.Name }}-{{ .Chart.Version }}
{{- end }}

{{- define "pagoda.config" -}}
pagoda.yaml: |
  {{- toYaml .Values.flags | nindent 2 }}
{{- end }}
