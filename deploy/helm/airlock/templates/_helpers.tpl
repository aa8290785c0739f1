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
{{- range $name, $value := . }}
- {name: {{ $name }}, value: {{ $value | quote }}}
{{- end }}
{{- end -}}

{{- /* The settings of workers: they run beside untrusted programs and get no secret. */ -}}
{{- define "airlock.workerSettings" -}}
{{- $all := dict }}
{{- range $name, $value := .Values.settings }}
{{- if and (regexMatch "^(AIRLOCK|OTEL)_" $name) (not (regexMatch (include "airlock.secrets" $) $name)) }}
{{- $_ := set $all $name $value }}
{{- end }}
{{- end }}
{{- include "airlock.settings" (merge (dict) .Values.worker.settings $all) }}
{{- end -}}

{{- define "airlock.secrets" -}}
(_KEY|_TOKEN|_SECRET|_PASSWORD|_HEADERS|_DATABASE|_BLOBS|_INJECT)(_FILE)?$
{{- end -}}

{{- define "airlock.firstKey" -}}
{{ .Values.firstKey.existing | default (printf "%s-first-key" (include "airlock.name" .)) }}
{{- end -}}

{{- define "airlock.bytes" -}}
{{ . | replace "Ki" "KiB" | replace "Mi" "MiB" | replace "Gi" "GiB" | replace "Ti" "TiB" | quote }}
{{- end -}}

{{- /* Where a pod runs: of values of api or worker. */ -}}
{{- define "airlock.place" -}}
{{- with .priorityClassName }}
priorityClassName: {{ . }}
{{- end }}
{{- with .affinity }}
affinity: {{- toYaml . | nindent 2 }}
{{- end }}
{{- with .nodeSelector }}
nodeSelector: {{- toYaml . | nindent 2 }}
{{- end }}
{{- with .tolerations }}
tolerations: {{- toYaml . | nindent 2 }}
{{- end }}
{{- end -}}

{{- define "airlock.dns" -}}
- to:
    - namespaceSelector:
        matchLabels: {kubernetes.io/metadata.name: kube-system}
  ports: [{protocol: UDP, port: 53}, {protocol: TCP, port: 53}]
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
