{{- define "osmo.name" -}}
{{- if contains .Chart.Name .Release.Name }}{{ .Release.Name | trunc 48 | trimSuffix "-" }}{{ else }}{{ printf "%s-%s" .Release.Name .Chart.Name | trunc 48 | trimSuffix "-" }}{{ end }}
{{- end }}

{{- define "osmo.labels" -}}
{{ include "osmo.selector" . }}
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .Release.Service }}
helm.sh/chart: {{ printf "%s-%s" .Chart.Name .Chart.Version }}
{{- end }}

{{- define "osmo.selector" -}}
app.kubernetes.io/name: {{ .Chart.Name }}
app.kubernetes.io/instance: {{ .Release.Name }}
{{- end }}

{{- define "osmo.image" -}}
{{- $image := .Values.image -}}
{{- if $image.digest }}{{ printf "%s@%s" $image.repository $image.digest }}{{ else }}{{ printf "%s:%s" $image.repository (default .Chart.AppVersion $image.tag) }}{{ end }}
{{- end }}

{{- define "osmo.account" -}}
{{- if .Values.serviceAccount.create }}{{ default (include "osmo.name" .) .Values.serviceAccount.name }}{{ else }}{{ default "default" .Values.serviceAccount.name }}{{ end }}
{{- end }}

{{- define "osmo.host" -}}
{{- (urlParse .Values.publicUrl).hostname }}
{{- end }}

{{- define "osmo.webhook.host" -}}
{{- printf "%s-webhook.%s.svc" (include "osmo.name" .) .Release.Namespace }}
{{- end }}

{{- define "osmo.webhook.secret" -}}
{{- $certificate := .Values.webhook.certificate }}
{{- default (printf "%s-webhook%s" (include "osmo.name" .) (ternary "" "-certificate" $certificate.certManager.enabled)) $certificate.secretName }}
{{- end }}

{{/* Whether a job makes the certificate: the name of nothing else is given. */}}
{{- define "osmo.webhook.job" -}}
{{- if and .Values.webhook.enabled (not .Values.webhook.certificate.secretName) (not .Values.webhook.certificate.certManager.enabled) }}true{{ end }}
{{- end }}

{{/* Rules that concern several values, each as one sentence. Types and names are in values.schema.json. */}}
{{- define "osmo.check" -}}
{{- if not (hasPrefix "https://" .Values.publicUrl) }}
{{- fail (printf "publicUrl is %q. Set the address for users, which begins with https://, for example --set publicUrl=https://osmo.example." .Values.publicUrl) }}
{{- end }}
{{- if not .Values.secrets.runtime }}
{{- fail "secrets.runtime is empty. Create a Secret with OSMO_SECRET_KEY, DATABASE_URL and REDIS_URL, and name it with --set secrets.runtime=NAME." }}
{{- end }}
{{- range list "OSMO_PUBLIC_URL" "OSMO_SECURE" "OSMO_PROXY_COUNT" "OSMO_LOG_FORMAT" "OSMO_ADMIN_HOME" "OSMO_KUBECONFIG_DIR" "OSMO_METRICS_PORT" "OSMO_DEBUG" "OSMO_DEV_LOGIN" }}
{{- if hasKey $.Values.settings . }}
{{- fail (printf "settings.%s is not allowed: the chart sets this variable itself (publicUrl, proxyCount, logFormat, kubeconfigs, metrics.processPort), or it is not for a server." .) }}
{{- end }}
{{- end }}
{{- range list "OSMO_SECRET_KEY" "OSMO_SECRET_KEY_FALLBACKS" "OSMO_OWNER_DATABASE_URL" "OSMO_ADMIN_PASSWORD" "OSMO_MAIL_URL" "OSMO_SLACK_TOKEN" }}
{{- if hasKey $.Values.settings . }}
{{- fail (printf "settings.%s is not allowed: it is a secret. Put it into the Secret that %s names, as the key %s." . (ternary "secrets.setup" "secrets.runtime" (has . (list "OSMO_OWNER_DATABASE_URL" "OSMO_ADMIN_PASSWORD"))) .) }}
{{- end }}
{{- end }}
{{- range $name, $_ := .Values.settings }}
{{- if and (hasPrefix "OSMO_SSO_" $name) (hasSuffix "_CLIENT_SECRET" $name) }}
{{- fail (printf "settings.%s is not allowed: it is a secret. Put it into a Secret, and name it with signOn.providers.NAME.clientSecret." $name) }}
{{- end }}
{{- if and (hasPrefix "OSMO_LDAP_" $name) (hasSuffix "_BIND_PASSWORD" $name) }}
{{- fail (printf "settings.%s is not allowed: it is a secret. Put it into a Secret, and name it with signOn.directories.NAME.bindPassword." $name) }}
{{- end }}
{{- if and $.Values.tracing.url (hasPrefix "OSMO_TRACES_" $name) }}
{{- fail (printf "settings.%s is not allowed together with tracing.url: the chart sets the variables of traces. Move it to tracing." $name) }}
{{- end }}
{{- if and $.Values.signOn.providers (or (eq $name "OSMO_SSO") (eq $name "OSMO_PASSWORD_LOGIN") (hasPrefix "OSMO_SSO_" $name)) }}
{{- fail (printf "settings.%s is not allowed together with signOn.providers: the chart sets the variables of sign-on. Move it to signOn." $name) }}
{{- end }}
{{- if and $.Values.signOn.directories (or (eq $name "OSMO_LDAP") (eq $name "OSMO_PASSWORD_LOGIN") (hasPrefix "OSMO_SSO_" $name) (hasPrefix "OSMO_LDAP_" $name)) }}
{{- fail (printf "settings.%s is not allowed together with signOn.directories: the chart sets the variables of sign-on. Move it to signOn." $name) }}
{{- end }}
{{- end }}
{{- if and (not .Values.signOn.providers) (not .Values.signOn.directories) (eq .Values.signOn.passwordLogin "admins") }}
{{- fail "signOn.passwordLogin is admins, but signOn.providers and signOn.directories are empty: nobody else could log in. Name one, or leave it at all." }}
{{- end }}
{{- range $name, $directory := .Values.signOn.directories }}
{{- if hasKey $.Values.signOn.providers $name }}
{{- fail (printf "signOn.directories.%s has the name of a provider. Give it another." $name) }}
{{- end }}
{{- if and (eq (default "force" $directory.sync) "force") (not $directory.roles) (not $directory.groupsAreRoles) }}
{{- fail (printf "signOn.directories.%s has the sync force and no roles: each login would take all roles away. Give roles or groupsAreRoles, or set sync to import or ignore." $name) }}
{{- end }}
{{- if and (not $directory.groupBase) (or (ne (default "force" $directory.sync) "ignore") $directory.allowedGroups) }}
{{- fail (printf "signOn.directories.%s.groupBase is empty, so nobody would have a group. Name the entry above the groups, or set sync to ignore." $name) }}
{{- end }}
{{- end }}
{{- range $name, $provider := .Values.signOn.providers }}
{{- if and (eq (default "force" $provider.sync) "force") (not $provider.roles) (not $provider.groupsAreRoles) }}
{{- fail (printf "signOn.providers.%s has the sync force and no roles: each sign-on would take all roles away. Give roles or groupsAreRoles, or set sync to import or ignore." $name) }}
{{- end }}
{{- end }}
{{- if and .Values.follow.enabled (not .Values.follow.configMapName) }}
{{- fail "follow.enabled needs follow.configMapName: the ConfigMap that has the configuration as one file." }}
{{- end }}
{{- if and .Values.backup.enabled (not .Values.backup.claimName) }}
{{- fail "backup.enabled needs backup.claimName: the PersistentVolumeClaim that receives the backups." }}
{{- end }}
{{- if and .Values.rbac.create (not .Values.rbac.workNamespace) }}
{{- fail "rbac.create needs rbac.workNamespace: the namespace in which the work of the backend runs." }}
{{- end }}
{{- $certificate := .Values.webhook.certificate }}
{{- if and $certificate.secretName $certificate.certManager.enabled }}
{{- fail "webhook.certificate has secretName and certManager.enabled. Choose one: a Secret that exists, or one that cert-manager makes." }}
{{- end }}
{{- if and $certificate.certManager.enabled (not $certificate.certManager.issuer.name) }}
{{- fail "webhook.certificate.certManager.issuer.name is empty. Name the Issuer or ClusterIssuer that signs the certificate." }}
{{- end }}
{{- with .Values.web.autoscaling }}
{{- if and .enabled (lt (int .maxReplicas) (int .minReplicas)) }}
{{- fail "web.autoscaling.maxReplicas is below minReplicas. Set it to minReplicas or more." }}
{{- end }}
{{- end }}
{{- if and .Values.metrics.serviceMonitor.enabled (not .Values.metrics.serviceMonitor.tokenSecret.name) (ne (toString (get .Values.settings "OSMO_METRICS_PUBLIC")) "true") }}
{{- fail "metrics.serviceMonitor needs tokenSecret.name, a Secret with an access token, or settings.OSMO_METRICS_PUBLIC=true." }}
{{- end }}
{{- end }}

{{/* Variables of every process. Call with (dict "root" $ "webhook" bool). */}}
{{- define "osmo.environment" -}}
{{- $root := .root -}}
{{- $hosts := list (include "osmo.host" $root) "localhost" "127.0.0.1" -}}
{{- if .webhook }}{{ $hosts = append $hosts (include "osmo.webhook.host" $root) }}{{ end -}}
{{- with get $root.Values.settings "OSMO_ALLOWED_HOSTS" }}{{ $hosts = concat $hosts (splitList "," .) }}{{ end -}}
- {name: OSMO_PUBLIC_URL, value: {{ $root.Values.publicUrl | quote }}}
- {name: OSMO_ALLOWED_HOSTS, value: {{ join "," (uniq $hosts) | quote }}}
- {name: OSMO_SECURE, value: "true"}
- {name: OSMO_PROXY_COUNT, value: {{ $root.Values.proxyCount | quote }}}
- {name: OSMO_LOG_FORMAT, value: {{ $root.Values.logFormat | quote }}}
{{- with $root.Values.tracing }}{{ if .url }}
- {name: OSMO_TRACES_URL, value: {{ .url | quote }}}
- {name: OSMO_TRACES_SHARE, value: {{ .share | quote }}}
{{- end }}{{ end }}
- {name: OSMO_ADMIN_HOME, value: /var/lib/osmo-admin}
{{- if $root.Values.kubeconfigs.secretName }}
- {name: OSMO_KUBECONFIG_DIR, value: /etc/osmo/kubeconfigs}
{{- end }}
{{- range $name, $value := omit $root.Values.settings "OSMO_ALLOWED_HOSTS" }}
- {name: {{ $name }}, value: {{ $value | quote }}}
{{- end }}
{{- if or $root.Values.signOn.providers $root.Values.signOn.directories }}
{{- include "osmo.signOn" $root.Values.signOn }}
{{- end }}
{{- range list "OSMO_SECRET_KEY" "DATABASE_URL" "REDIS_URL" }}
- name: {{ . }}
  valueFrom: {secretKeyRef: {name: {{ $root.Values.secrets.runtime }}, key: {{ . }}}}
{{- end }}
{{- end }}

{{/* The variables of sign-on, as docs/sign-on.md names them. Call with the values of signOn. */}}
{{- define "osmo.signOn" }}
{{- with .providers }}
- {name: OSMO_SSO, value: {{ keys . | sortAlpha | join "," | quote }}}
{{- end }}
{{- with .directories }}
- {name: OSMO_LDAP, value: {{ keys . | sortAlpha | join "," | quote }}}
{{- end }}
- {name: OSMO_PASSWORD_LOGIN, value: {{ .passwordLogin | quote }}}
- {name: OSMO_SSO_CHECK_INTERVAL, value: {{ .checkIntervalSeconds | quote }}}
- {name: OSMO_SSO_GRACE, value: {{ .graceSeconds | quote }}}
{{- range $name, $provider := .providers }}
{{- $prefix := printf "OSMO_SSO_%s_" (upper $name) }}
{{- range $key, $variable := dict "issuer" "ISSUER" "clientId" "CLIENT_ID" "title" "TITLE" "sync" "SYNC" "groupsClaim" "GROUPS_CLAIM" "usernameClaim" "USERNAME_CLAIM" "groupsAreRoles" "GROUPS_ARE_ROLES" "sessionHours" "SESSION_HOURS" }}
{{- if hasKey $provider $key }}
- {name: {{ $prefix }}{{ $variable }}, value: {{ get $provider $key | toString | quote }}}
{{- end }}
{{- end }}
{{- include "osmo.groups" (dict "prefix" $prefix "values" $provider) }}
{{- with $provider.parameters }}
{{- $pairs := list }}
{{- range $key, $value := . }}
{{- $pairs = append $pairs (printf "%s=%s" $key $value) }}
{{- end }}
- {name: {{ $prefix }}PARAMETERS, value: {{ join ";" $pairs | quote }}}
{{- end }}
{{- with $provider.scopes }}
- {name: {{ $prefix }}SCOPES, value: {{ join "," . | quote }}}
{{- end }}
{{- with $provider.clientSecret }}
- name: {{ $prefix }}CLIENT_SECRET
  valueFrom: {secretKeyRef: {name: {{ .name }}, key: {{ .key }}}}
{{- end }}
{{- end }}
{{- range $name, $directory := .directories }}
{{- $prefix := printf "OSMO_LDAP_%s_" (upper $name) }}
{{- range $key, $variable := dict "title" "TITLE" "unencrypted" "UNENCRYPTED" "bindDn" "BIND_DN" "userBase" "USER_BASE" "userFilter" "USER_FILTER" "usernameAttribute" "USERNAME_ATTRIBUTE" "idAttribute" "ID_ATTRIBUTE" "mailAttribute" "MAIL_ATTRIBUTE" "groupBase" "GROUP_BASE" "groupFilter" "GROUP_FILTER" "groupAttribute" "GROUP_ATTRIBUTE" "sync" "SYNC" "groupsAreRoles" "GROUPS_ARE_ROLES" "sessionHours" "SESSION_HOURS" }}
{{- if hasKey $directory $key }}
- {name: {{ $prefix }}{{ $variable }}, value: {{ get $directory $key | toString | quote }}}
{{- end }}
{{- end }}
{{- range $key, $variable := dict "urls" "URLS" "loginAttributes" "LOGIN_ATTRIBUTES" }}
{{- with get $directory $key }}
- {name: {{ $prefix }}{{ $variable }}, value: {{ join "," . | quote }}}
{{- end }}
{{- end }}
{{- include "osmo.groups" (dict "prefix" $prefix "values" $directory) }}
{{- with $directory.bindPassword }}
- name: {{ $prefix }}BIND_PASSWORD
  valueFrom: {secretKeyRef: {name: {{ .name }}, key: {{ .key }}}}
{{- end }}
{{- with $directory.caConfigMap }}
- name: {{ $prefix }}CA
  valueFrom: {configMapKeyRef: {name: {{ .name }}, key: {{ .key }}}}
{{- end }}
{{- end }}
{{- end }}

{{/* The variables of groups, of a provider or a directory. Call with (dict "prefix" "OSMO_…_" "values" …). */}}
{{- define "osmo.groups" }}
{{- $prefix := .prefix }}
{{- with .values.roles }}
{{- $entries := list }}
{{- range $group, $roles := . }}{{ $entries = append $entries (printf "%s=%s" $group (join "+" $roles)) }}{{ end }}
- {name: {{ $prefix }}ROLES, value: {{ join ";" $entries | quote }}}
{{- end }}
{{- with .values.allowedGroups }}
- {name: {{ $prefix }}ALLOWED_GROUPS, value: {{ join ";" . | quote }}}
{{- end }}
{{- end }}

{{/* What every pod has in common. Call with (dict "root" $ "calls" bool): whether it calls clusters, by the "account" or
that of the processes. */}}
{{- define "osmo.pod" -}}
{{- $values := .root.Values -}}
serviceAccountName: {{ if .calls }}{{ default (include "osmo.account" .root) .account }}{{ else }}default{{ end }}
automountServiceAccountToken: {{ .calls }}
enableServiceLinks: false
securityContext:
  runAsNonRoot: true
  runAsUser: 10001
  runAsGroup: 10001
  fsGroup: 10001
  seccompProfile: {type: RuntimeDefault}
{{- with $values.image.pullSecrets }}
imagePullSecrets:
{{- range . }}
  - name: {{ . }}
{{- end }}
{{- end }}
{{- with $values.priorityClassName }}
priorityClassName: {{ . }}
{{- end }}
{{- with $values.nodeSelector }}
nodeSelector: {{- toYaml . | nindent 2 }}
{{- end }}
{{- with $values.tolerations }}
tolerations: {{- toYaml . | nindent 2 }}
{{- end }}
{{- with $values.affinity }}
affinity: {{- toYaml . | nindent 2 }}
{{- end }}
{{- end }}

{{- define "osmo.container" -}}
image: {{ include "osmo.image" . }}
imagePullPolicy: {{ .Values.image.pullPolicy }}
securityContext:
  allowPrivilegeEscalation: false
  readOnlyRootFilesystem: true
  capabilities: {drop: [ALL]}
{{- end }}

{{/* Pods of one process on different nodes where that is possible. Call with (dict "root" $ "component" NAME). */}}
{{- define "osmo.spread" -}}
{{- $selector := dict "matchLabels" (merge (dict "app.kubernetes.io/component" .component) (include "osmo.selector" .root | fromYaml)) -}}
{{- $default := dict "maxSkew" 1 "topologyKey" "kubernetes.io/hostname" "whenUnsatisfiable" "ScheduleAnyway" -}}
topologySpreadConstraints:
{{- range default (list $default) .root.Values.topologySpreadConstraints }}
  - {{- toYaml (merge (deepCopy .) (dict "labelSelector" $selector)) | nindent 4 }}
{{- end }}
{{- end }}
