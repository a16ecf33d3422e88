#!/bin/bash
# Fills an installation of commit 0ac3b85 with objects of each kind, and makes the backup of it; see README.md.
#   make_0ac3b85.sh URL DATA BACKUP
# URL is the address of its `osmo-admin up --no-demo`, DATA its data directory, BACKUP the new folder.
set -euo pipefail
url=$1
here=(--data-dir "$2")
backup=$3
osmo login "$url" --method token --token "$(osmo-admin token create admin laptop-$RANDOM "${here[@]}" | tail -1)"
cd "$(mktemp -d)"
printf 'type: simulated\nnamespace: ns\nnodes: [{name: n1, gpus: 8}, {name: n2, gpus: 8}]\n' > sim.yaml
cat > lab.yaml <<'Y'
type: kubernetes
namespace: lab
kubeconfig: |
  {apiVersion: v1, kind: Config, current-context: c, contexts: [{name: c, context: {cluster: k, user: u}}],
   clusters: [{name: k, cluster: {server: 'https://192.0.2.1:6443'}}], users: [{name: u, user: {token: t}}]}
Y
osmo config update BACKEND sim -f sim.yaml -d "a cluster"
osmo config update BACKEND lab -f lab.yaml -d "another"
cat > pool.yaml <<'Y'
pools:
  team: {backend: sim, cohort: org, lending_limit: 4, approval_above: 4, resources: {gpu: {guarantee: 16, maximum: -1, weight: 1}}, gpu_quota_namespace: team-ns, platforms: {default: {gpu_tflops: "100", gpu_vram: 80Gi}}}
  guests: {backend: sim, cohort: org, resources: {gpu: {guarantee: 0, maximum: -1, weight: 2}}}
  away: {backend: lab, resources: {gpu: {guarantee: 8, maximum: -1, weight: 1}}}
Y
osmo config update POOL -f pool.yaml -d "three pools"
osmo cohort put org --quota gpu=2
osmo cohort put sub --parent org --quota gpu=1
for each in a:4 b:4 c:2 d:1; do osmo pool subpool create team "${each%:*}" --quota "${each#*:}"; done
osmo pool subpool create away x --quota 3
osmo pool subpool update team b --quota 5 --until 2027-11-01T00:00:00
osmo quota set team-ns --requests tflops=2000 --requests vram=4Ti --limits tflops=2000 --limits vram=4Ti
osmo quota set other-ns --requests tflops=200 --max-workers 4
osmo quota allocate other-ns w1 --request tflops=10
cat > job.yaml <<'Y'
workflow:
  name: job
  tasks:
  - {name: train, image: ubuntu, command: [sh], resource: r}
  resources:
    r: {gpu: 2}
Y
osmo workflow submit job.yaml --pool team--a
osmo workflow submit job.yaml --pool team--c
osmo workflow submit job.yaml --pool guests --priority LOW
osmo workflow submit job.yaml --pool team--a
osmo workflow submit job.yaml --pool team--a
osmo workflow submit job.yaml --pool away--x
sleep 5
osmo workflow cancel job-4
osmo pool subpool delete team c
osmo pool subpool delete team d
osmo-admin user create bob --role osmo-team-admin --role osmo-admin "${here[@]}"
osmo pool subpool update team a --quota 9 --request-approval -d "for the demo"
osmo notice add ci webhook https://ci.example.com/hooks/osmo
osmo notice add ops webhook https://ops.example.com/osmo --installation --kinds job_late cluster_silent
osmo notice test 1
cat > git.yaml <<'Y'
pools:
  strict: {backend: sim, resources: {gpu: {guarantee: 0, maximum: -1, weight: 1}}, subpools_owner: git}
cohorts:
  lent: {}
roles:
  osmo-strict-admin: {users: [zoe]}
Y
osmo-admin apply -f git.yaml --source git@example.com/gpu --commit abc "${here[@]}"
osmo profile set notifications email true
echo '[{set: {name: team--b, quota: 3}}]' > changes.yaml
osmo replay --own --backend sim --since 1h changes.yaml
osmo-admin verify "${here[@]}"
osmo-admin backup "$backup" "${here[@]}"
