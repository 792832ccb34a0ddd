{{- define "chiplog-operator.name" -}}
{{- printf "%s-operator" (trimSuffix "-operator" .Release.Name) | trunc 63 | trimSuffix "-" -}}
{{- end -}}

{{/* Which namespaces: said, and not by saying nothing. */}}
{{- define "chiplog-operator.checkNamespaces" -}}
{{- if and .Values.watchNamespaces .Values.watchAllNamespaces -}}
{{- fail "watchNamespaces names namespaces, and watchAllNamespaces is true: remove one of the two" -}}
{{- else if not (or .Values.watchNamespaces .Values.watchAllNamespaces) -}}
{{- fail "say which namespaces the operator looks after: watchNamespaces={demo,...} names them, each of which must exist, and its rights hold in no other; watchAllNamespaces=true takes all, and its rights (to make pods, Jobs and Roles, to read Secrets by name) hold in every namespace" -}}
{{- end -}}
{{- end -}}

{{/* What it may do in a namespace that it looks after. */}}
{{- define "chiplog-operator.rules" -}}
{{- .Files.Get "rules/namespaced.yaml" -}}
{{- if .Values.secretsOfClusters }}
- apiGroups: [""]
  resources: [secrets]
  verbs: [create]
- apiGroups: [""]
  resources: [secrets]
  resourceNames:
    {{- range .Values.secretsOfClusters }}
    - {{ . }}-internal
    - {{ . }}-cluster-ca
    - {{ . }}-cluster-ca-cert
    - {{ . }}-clients-ca
    - {{ . }}-clients-ca-cert
    - {{ . }}-broker-certs
    - {{ . }}-scram-credentials
    {{- end }}
  verbs: [get, patch]
{{- with .Values.secretsOfUsers }}
- apiGroups: [""]
  resources: [secrets]
  resourceNames:
    {{- range . }}
    - {{ . }}
    {{- end }}
  verbs: [get, patch, delete]
{{- end }}
{{- else }}
{{ .Files.Get "rules/secrets.yaml" }}
{{- end }}
{{- end -}}

{{- define "chiplog-operator.selector" -}}
app.kubernetes.io/name: chiplog-operator
app.kubernetes.io/instance: {{ .Release.Name }}
{{- end -}}

{{- define "chiplog-operator.labels" -}}
{{ include "chiplog-operator.selector" . }}
app.kubernetes.io/part-of: chiplog
app.kubernetes.io/managed-by: {{ .Release.Service }}
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
helm.sh/chart: {{ printf "%s-%s" .Chart.Name .Chart.Version | replace "+" "_" }}
{{- end -}}

{{/*
The name of all that `helm test` makes. One name, since `helm test --logs` asks for a pod of the name of each. Like
no other's, since what has it is deleted before each test: the namespace's and the release's, as a hash.
*/}}
{{- define "chiplog-operator.testName" -}}
{{- $hash := printf "%s/%s" .Release.Namespace .Release.Name | sha256sum | trunc 8 -}}
{{- printf "%s-test-%s" (.Release.Name | trunc 40 | trimSuffix "-") $hash -}}
{{- end -}}

{{/* Of what `helm test` makes: no selector of the operator's pods finds it. */}}
{{- define "chiplog-operator.testLabels" -}}
app.kubernetes.io/name: chiplog-operator-test
app.kubernetes.io/instance: {{ .Release.Name }}
app.kubernetes.io/part-of: chiplog
app.kubernetes.io/managed-by: {{ .Release.Service }}
helm.sh/chart: {{ printf "%s-%s" .Chart.Name .Chart.Version | replace "+" "_" }}
{{- end -}}

{{/* "true" where the API server judges what is applied, by ValidatingAdmissionPolicies. */}}
{{- define "chiplog-operator.judges" -}}
{{- and .Values.admissionPolicies.install (semverCompare ">=1.30.0-0" .Capabilities.KubeVersion.Version) -}}
{{- end -}}

{{/* Of a binding: the namespaces in which it judges, those that the operator looks after. */}}
{{- define "chiplog-operator.judged" -}}
{{- with .Values.watchNamespaces -}}
matchResources:
  matchPolicy: Equivalent
  objectSelector: {}
  namespaceSelector:
    matchExpressions:
      - key: kubernetes.io/metadata.name
        operator: In
        values: {{ toJson . }}
{{- end }}
{{- end -}}

{{/* A whole image reference of the values in `image`, whose tag is by default `version`. */}}
{{- define "chiplog-operator.image" -}}
{{- .image.reference | default (printf "%s:%s" .image.repository (.image.tag | default .version)) -}}
{{- end -}}
