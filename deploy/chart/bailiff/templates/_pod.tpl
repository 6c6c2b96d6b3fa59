{{/*
A Deployment. Arguments: root, name, component (its values), replicas, args (a list), serves (true: the bus).
*/}}
{{- define "bailiff.deployment" -}}
{{- $root := .root -}}
{{- $values := .root.Values -}}
{{- $host := include "bailiff.hostNetwork" $root -}}
apiVersion: apps/v1
kind: Deployment
metadata:
  name: {{ .name }}
  namespace: {{ $root.Release.Namespace }}
  labels:
    {{- include "bailiff.labels" $root | nindent 4 }}
    app.kubernetes.io/component: {{ .name }}
spec:
  replicas: {{ .component.replicas }}
  # A replica that is gone is not missed for long: another waits, or the next takes over what was decided.
  strategy:
    {{- if and .serves (eq $values.bus.engine "memory") }}
    type: Recreate
    {{- else }}
    type: RollingUpdate
    rollingUpdate:
      {{- if $host }}
      # On the machine's network the old one holds the port.
      maxSurge: 0
      maxUnavailable: 1
      {{- else }}
      maxSurge: 1
      maxUnavailable: 0
      {{- end }}
    {{- end }}
  selector:
    matchLabels:
      {{- include "bailiff.selector" $root | nindent 6 }}
      app.kubernetes.io/component: {{ .name }}
  template:
    metadata:
      labels:
        {{- include "bailiff.labels" $root | nindent 8 }}
        app.kubernetes.io/component: {{ .name }}
      {{- with $values.podAnnotations }}
      annotations:
        {{- toYaml . | nindent 8 }}
      {{- end }}
    spec:
      serviceAccountName: {{ .name }}
      automountServiceAccountToken: {{ not .serves }}
      enableServiceLinks: false
      {{- with $values.image.pullSecrets }}
      imagePullSecrets:
        {{- range . }}
        - name: {{ . }}
        {{- end }}
      {{- end }}
      {{- if $host }}
      hostNetwork: true
      {{- $clusterDns := and .serves (eq $values.bus.engine "etcd") (not $values.bus.etcdEndpoints) }}
      dnsPolicy: {{ ternary "ClusterFirstWithHostNet" "Default" $clusterDns }}
      {{- end }}
      {{- with $values.hostAliases }}
      hostAliases:
        {{- toYaml . | nindent 8 }}
      {{- end }}
      {{- $priority := ternary "system-cluster-critical" "" (eq $values.profile "replace") }}
      {{- if kindIs "string" $values.priorityClassName }}{{ $priority = $values.priorityClassName }}{{ end }}
      {{- with $priority }}
      priorityClassName: {{ . }}
      {{- end }}
      # Longer than --drain-timeout (20s).
      terminationGracePeriodSeconds: 30
      securityContext:
        runAsNonRoot: true
        runAsUser: 65532
        runAsGroup: 65532
        fsGroup: 65532
        seccompProfile: {type: RuntimeDefault}
      {{- if kindIs "slice" $values.tolerations }}
      {{- with $values.tolerations }}
      tolerations:
        {{- toYaml . | nindent 8 }}
      {{- end }}
      {{- else if eq $values.profile "replace" }}
      tolerations:
        - operator: Exists
      {{- end }}
      {{- include "bailiff.placement" . | trim | nindent 6 }}
      containers:
        - name: {{ .name }}
          {{- $tag := $values.image.tag | default $root.Chart.AppVersion }}
          image: {{ .component.image | default (printf "%s/%s:%s" $values.image.registry .name $tag) }}
          imagePullPolicy: {{ $values.image.pullPolicy }}
          {{- with .component.command }}
          command:
            {{- toYaml . | nindent 12 }}
          {{- end }}
          args:
            {{- .args | nindent 12 }}
          {{- $reaches := and (not .serves) (or $host $values.apiServer.host) }}
          {{- if or $reaches .component.env }}
          env:
          {{- end }}
          {{- if and $host (not .serves) }}
            {{- if $values.apiServer.host }}
            - name: KUBERNETES_SERVICE_HOST
              value: {{ $values.apiServer.host | quote }}
            {{- else }}
            # The API server of the same machine: neither DNS nor the Service's address is needed.
            - name: KUBERNETES_SERVICE_HOST
              valueFrom: {fieldRef: {fieldPath: status.hostIP}}
            {{- end }}
            - name: KUBERNETES_SERVICE_PORT
              value: {{ $values.apiServer.port | quote }}
          {{- else if $reaches }}
            - name: KUBERNETES_SERVICE_HOST
              value: {{ $values.apiServer.host | quote }}
            - name: KUBERNETES_SERVICE_PORT
              value: {{ $values.apiServer.port | quote }}
          {{- end }}
          {{- range $name, $value := .component.env }}
            - name: {{ $name }}
              value: {{ $value | quote }}
          {{- end }}
          ports:
            - name: admin
              containerPort: {{ .component.adminPort }}
            {{- if .serves }}
            - name: bus
              containerPort: {{ $values.bus.port }}
            {{- end }}
          {{- $where := ternary "" ", host: 127.0.0.1" (eq (include "bailiff.exposed" $root) "true") }}
          {{- $scheme := ternary "HTTP" "HTTPS" (eq $values.tls.mode "none") }}
          {{- if ne (toString .component.probes) "false" }}
          livenessProbe:
            httpGet: {path: /livez, port: admin, scheme: {{ $scheme }}{{ $where }}}
            periodSeconds: 10
            timeoutSeconds: 5
            failureThreshold: 6
          readinessProbe:
            httpGet: {path: /readyz, port: admin, scheme: {{ $scheme }}{{ $where }}}
            periodSeconds: 5
            timeoutSeconds: 5
          {{- end }}
          resources:
            {{- toYaml .component.resources | nindent 12 }}
          securityContext:
            allowPrivilegeEscalation: false
            readOnlyRootFilesystem: true
            capabilities: {drop: [ALL]}
          {{- $etcd := and .serves $values.bus.etcdSecret }}
          {{- if or (ne $values.tls.mode "none") $etcd }}
          volumeMounts:
            {{- if ne $values.tls.mode "none" }}
            - name: tls
              mountPath: /var/run/bailiff/tls
              readOnly: true
            {{- end }}
            {{- if $etcd }}
            - name: etcd
              mountPath: /var/run/bailiff/etcd
              readOnly: true
            {{- end }}
      volumes:
        {{- if ne $values.tls.mode "none" }}
        - name: tls
          secret:
            secretName: {{ printf $values.tls.secretName .name }}
            defaultMode: 0440
        {{- end }}
        {{- if $etcd }}
        - name: etcd
          secret:
            secretName: {{ $etcd }}
            defaultMode: 0440
        {{- end }}
          {{- end }}
{{- end }}

{{/* Where pods go. */}}
{{- define "bailiff.placement" -}}
{{- $root := .root -}}
{{- $values := .root.Values -}}
{{- $affinity := $values.nodeAffinity -}}
{{- if not (kindIs "map" $affinity) -}}
{{- $affinity = dict -}}
{{- if eq $values.profile "replace" -}}
{{- $exists := dict "key" "node-role.kubernetes.io/control-plane" "operator" "Exists" -}}
{{- $affinity = dict "nodeSelectorTerms" (list (dict "matchExpressions" (list $exists))) -}}
{{- end -}}
{{- end -}}
{{- if or $affinity (include "bailiff.oneMachine" $root) }}
affinity:
  {{- with $affinity }}
  nodeAffinity:
    requiredDuringSchedulingIgnoredDuringExecution:
      {{- toYaml . | nindent 6 }}
  {{- end }}
  {{- if include "bailiff.oneMachine" $root }}
  # The bus is reached over loopback: all pods on the machine of the first.
  podAffinity:
    requiredDuringSchedulingIgnoredDuringExecution:
      - topologyKey: kubernetes.io/hostname
        labelSelector:
          matchLabels:
            {{- include "bailiff.selector" $root | nindent 12 }}
  {{- end }}
{{- end }}
{{- if not (include "bailiff.oneMachine" $root) }}
topologySpreadConstraints:
  {{- range $key := list "topology.kubernetes.io/zone" "kubernetes.io/hostname" }}
  - topologyKey: {{ $key }}
    maxSkew: 1
    whenUnsatisfiable: ScheduleAnyway
    matchLabelKeys: [pod-template-hash]
    labelSelector:
      matchLabels:
        {{- include "bailiff.selector" $root | nindent 8 }}
        app.kubernetes.io/component: {{ $.name }}
  {{- end }}
{{- end }}
{{- end }}

{{/* Disruption budget and ServiceAccount. */}}
{{- define "bailiff.budget" -}}
apiVersion: policy/v1
kind: PodDisruptionBudget
metadata:
  name: {{ .name }}
  namespace: {{ .root.Release.Namespace }}
  labels:
    {{- include "bailiff.labels" .root | nindent 4 }}
    app.kubernetes.io/component: {{ .name }}
spec:
  maxUnavailable: {{ .root.Values.podDisruptionBudget.maxUnavailable }}
  # One that is not ready holds up no drain.
  unhealthyPodEvictionPolicy: AlwaysAllow
  selector:
    matchLabels:
      {{- include "bailiff.selector" .root | nindent 6 }}
      app.kubernetes.io/component: {{ .name }}
{{- end }}

{{- define "bailiff.serviceAccount" -}}
apiVersion: v1
kind: ServiceAccount
metadata:
  name: {{ .name }}
  namespace: {{ .root.Release.Namespace }}
  labels:
    {{- include "bailiff.labels" .root | nindent 4 }}
    app.kubernetes.io/component: {{ .name }}
automountServiceAccountToken: false
{{- end }}
