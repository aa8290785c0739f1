{{- define "airlock.name" -}}
{{ .Release.Name | trunc 40 | trimSuffix "-" }}
{{- end -}}

{{- define "airlock.secret" -}}
{{ .Values.secret.existing | default (include "airlock.name" .) }}
{{- end -}}

{{- /* Selectors: of the release and one component. */ -}}
{{- define "airlock.selector" -}}
app.kubernetes.io/name: airlock
app.kubernetes.io/instance: {{ .root.Release.Name }}
app.kubernetes.io/component: {{ .component }}
{{- end -}}

{{- define "airlock.labels" -}}
{{ include "airlock.selector" . }}
app.kubernetes.io/version: {{ .root.Values.image.tag | default .root.Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .root.Release.Service }}
helm.sh/chart: {{ .root.Chart.Name }}-{{ .root.Chart.Version }}
{{- end -}}

{{- define "airlock.image" -}}
image: {{ printf "%s:%s" .Values.image.repository (.Values.image.tag | default .Chart.AppVersion) | quote }}
imagePullPolicy: {{ .Values.image.pullPolicy }}
{{- end -}}

{{- define "airlock.settings" -}}
{{- range $name, $value := .Values.settings }}
- {name: {{ $name }}, value: {{ $value | quote }}}
{{- end }}
{{- end -}}

{{- define "airlock.spread" -}}
topologySpreadConstraints:
  - maxSkew: 1
    topologyKey: kubernetes.io/hostname
    whenUnsatisfiable: ScheduleAnyway
    labelSelector:
      matchLabels: {{- include "airlock.selector" . | nindent 8 }}
{{- end -}}

{{- define "airlock.budget" -}}
apiVersion: policy/v1
kind: PodDisruptionBudget
metadata:
  name: {{ include "airlock.name" .root }}-{{ .component }}
  labels: {{- include "airlock.labels" . | nindent 4 }}
spec:
  maxUnavailable: 1
  selector:
    matchLabels: {{- include "airlock.selector" . | nindent 6 }}
{{- end -}}

{{- define "airlock.reach" -}}
{{- range . }}
- to:
    - ipBlock:
        cidr: {{ .cidr }}
        {{- with .except }}
        except: {{- toYaml . | nindent 10 }}
        {{- end }}
  ports: [{protocol: TCP, port: {{ .port }}}]
{{- end }}
{{- end -}}
