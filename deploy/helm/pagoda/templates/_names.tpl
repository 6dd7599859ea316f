{{- /* The name of the release, followed by that of the chart unless it is already contained. */ -}}
{{- define "pagoda.name" -}}
{{- if contains .Chart.Name .Release.Name }}{{ .Release.Name }}{{ else }}{{ .Release.Name }}-{{ .Chart.Name }}{{ end }}
{{- end }}

{{- /* Includes the release, so that two releases in one namespace do not select each other's pods. */ -}}
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
