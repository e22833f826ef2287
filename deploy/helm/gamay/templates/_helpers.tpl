{{- define "gamay.labels" -}}
app.kubernetes.io/name: gamay
app.kubernetes.io/instance: {{ .Release.Name }}
{{- end }}

{{- define "gamay.zk" -}}
{{- if .Values.zookeeper.external }}{{ .Values.zookeeper.external }}{{ else }}{{ .Release.Name }}-zookeeper:2181/gamay{{ end }}
{{- end }}

{{- define "gamay.image" -}}
{{ .Values.image.repository }}:{{ .Values.image.tag | default .Chart.AppVersion }}
{{- end }}

{{- define "gamay.claim" -}}
accessModes: [ReadWriteOnce]
{{- with .root.Values.storageClassName }}
storageClassName: {{ . }}
{{- end }}
resources:
  requests:
    storage: {{ .size }}
{{- end }}
