{{/* Components that have a Deployment, in pipeline order after the bus. */}}
{{- define "bailiff.stages" -}}
node-health-monitor taint-manager zone-evictor daemonset-syncer
{{- end }}

{{- define "bailiff.observes" -}}
{{- if eq .Values.profile "observe" }}true{{ end -}}
{{- end }}

{{- define "bailiff.hostNetwork" -}}
{{- if kindIs "bool" .Values.hostNetwork }}{{ if .Values.hostNetwork }}true{{ end }}{{ else if eq .Values.profile "replace" }}true{{ end -}}
{{- end }}

{{/* All pods share one machine, and the bus its loopback. */}}
{{- define "bailiff.oneMachine" -}}
{{- if and (include "bailiff.hostNetwork" .) (not .Values.bus.addresses) }}true{{ end -}}
{{- end }}

{{/* Admin ports are served beyond the machine. */}}
{{- define "bailiff.exposed" -}}
{{- if kindIs "bool" .Values.metrics.expose }}{{ if .Values.metrics.expose }}true{{ end -}}
{{- else if or .Values.metrics.serviceMonitor (not (include "bailiff.hostNetwork" .)) }}true{{ end -}}
{{- end }}

{{- define "bailiff.labels" -}}
app.kubernetes.io/name: bailiff
app.kubernetes.io/instance: {{ .Release.Name }}
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .Release.Service }}
{{- end }}

{{/* What pods of the release have in common. */}}
{{- define "bailiff.selector" -}}
app.kubernetes.io/name: bailiff
app.kubernetes.io/instance: {{ .Release.Name }}
{{- end }}

{{- define "bailiff.busAddresses" -}}
{{- if .Values.bus.addresses -}}
{{ join "," .Values.bus.addresses }}
{{- else if include "bailiff.hostNetwork" . -}}
127.0.0.1:{{ .Values.bus.port }}
{{- else -}}
event-bus.{{ .Release.Namespace }}.svc:{{ .Values.bus.port }}
{{- end -}}
{{- end }}

{{- define "bailiff.etcdEndpoints" -}}
{{- if .Values.bus.etcdEndpoints -}}
{{ join "," .Values.bus.etcdEndpoints }}
{{- else -}}
{{- $scheme := ternary "http" "https" (eq .Values.tls.mode "none") -}}
{{- $namespace := .Release.Namespace -}}
{{- range $i := until 3 }}{{ if $i }},{{ end }}{{ $scheme }}://etcd-{{ $i }}.etcd.{{ $namespace }}.svc:2379{{ end -}}
{{- end -}}
{{- end }}

{{/* What must not be combined. */}}
{{- define "bailiff.check" -}}
{{- if and (eq .Values.bus.engine "memory") (gt (int .Values.bus.replicas) 1) -}}
{{- fail "bus.replicas: the memory engine has one replica; several need bus.engine: etcd" -}}
{{- end -}}
{{- if and (eq .Values.bus.engine "etcd") (not .Values.etcd.enabled) (not .Values.bus.etcdEndpoints) -}}
{{- fail "bus.engine etcd needs etcd.enabled, or bus.etcdEndpoints" -}}
{{- end -}}
{{- if and .Values.etcd.enabled .Values.bus.etcdEndpoints -}}
{{- fail "etcd.enabled and bus.etcdEndpoints: only one of them" -}}
{{- end -}}
{{- if not (or (include "bailiff.exposed" .) (include "bailiff.hostNetwork" .)) -}}
{{- fail "metrics.expose false needs hostNetwork: else no probe reaches the admin ports" -}}
{{- end -}}
{{- if and (not .Values.bus.enabled) (not .Values.bus.addresses) -}}
{{- fail "bus.enabled is false: bus.addresses must say where the bus is" -}}
{{- end -}}
{{- if and (eq .Values.tls.mode "none") (not .Values.tls.insecure) (not (include "bailiff.oneMachine" .)) -}}
{{- fail "tls.mode none: the bus is not reached over loopback; choose secret or certManager, or set tls.insecure" -}}
{{- end -}}
{{- if and (eq .Values.tls.mode "none") (not .Values.tls.insecure) .Values.etcd.enabled -}}
{{- fail "tls.mode none: etcd is not reached over loopback; choose secret or certManager, or set tls.insecure" -}}
{{- end -}}
{{- if and (eq .Values.tls.mode "certManager") (not .Values.tls.issuerRef.name) -}}
{{- fail "tls.mode certManager needs tls.issuerRef.name" -}}
{{- end -}}
{{- if include "bailiff.oneMachine" . -}}
{{- $root := . -}}
{{- if gt (int .Values.bus.replicas) 1 -}}
{{- fail "bus.replicas: with hostNetwork several replicas need several machines: list them in bus.addresses" -}}
{{- end -}}
{{- range $name := splitList " " (include "bailiff.stages" .) -}}
{{- if gt (int (index $root.Values.stages $name).replicas) 1 -}}
{{- fail (printf "stages.%s.replicas: with hostNetwork several replicas need several machines: list them in bus.addresses" $name) -}}
{{- end -}}
{{- end -}}
{{- end -}}
{{- end }}

{{/* A map of flags as arguments, by name. */}}
{{- define "bailiff.flags" -}}
{{- range $name, $value := . }}
- {{ printf "--%s=%v" $name $value | quote }}
{{- end }}
{{- end }}

{{- define "bailiff.tlsFlags" -}}
{{- if ne .Values.tls.mode "none" }}
- "--tls-cert-file=/var/run/bailiff/tls/tls.crt"
- "--tls-private-key-file=/var/run/bailiff/tls/tls.key"
- "--tls-ca-file=/var/run/bailiff/tls/ca.crt"
{{- else if .Values.tls.insecure }}
- "--insecure=true"
{{- end }}
{{- end }}
