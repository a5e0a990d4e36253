{{- define "sluice.name" -}}
{{- if contains .Chart.Name .Release.Name -}}
{{- .Release.Name | trunc 50 | trimSuffix "-" -}}
{{- else -}}
{{- printf "%s-%s" .Release.Name .Chart.Name | trunc 50 | trimSuffix "-" -}}
{{- end -}}
{{- end -}}

{{- define "sluice.selector" -}}
app.kubernetes.io/name: {{ .Chart.Name }}
app.kubernetes.io/instance: {{ .Release.Name }}
{{- end -}}

{{- define "sluice.labels" -}}
{{ include "sluice.selector" . }}
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
{{- end -}}

{{- define "sluice.image" -}}
{{- with .Values.image -}}
{{- if .digest -}}
{{ .repository }}@{{ .digest }}
{{- else -}}
{{ .repository }}:{{ .tag | default $.Chart.AppVersion }}
{{- end -}}
{{- end -}}
{{- end -}}

{{- /* The settings, with the certificate of `tls.secret` at each listener of clients. */ -}}
{{- define "sluice.config" -}}
{{- $config := deepCopy .Values.config -}}
{{- if .Values.tls.secret -}}
{{- $tls := dict "certificate" "/etc/sluice/tls/tls.crt" "key" "/etc/sluice/tls/tls.key" -}}
{{- range $name := list "thrift" "thrift_http" "connect" -}}
{{- with index $config.listeners $name -}}
{{- if not (hasKey . "tls") -}}{{- $_ := set . "tls" $tls -}}{{- end -}}
{{- end -}}
{{- end -}}
{{- end -}}
{{- toYaml $config -}}
{{- end -}}

{{- define "sluice.drain" -}}
{{- $sessions := get .Values.config "sessions" | default dict -}}
{{- ternary (get $sessions "drain_s") 20 (hasKey $sessions "drain_s") | float64 | ceil | int -}}
{{- end -}}
