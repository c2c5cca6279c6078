"""What the commands of a documentation page find: shell commands to run before its blocks, by number."""

QUICK = (
    "sed 's/pause: 1/pause: 0/; s/accounts: 12000/accounts: 240/' examples/balance-report.yaml > quick.yaml"
)
DEFINED = f"{QUICK}; shardmill define quick.yaml"
IDLE = "shardmill groups add idle"

_CONTROL = f"""{DEFINED}
{IDLE}
touch blocked
shardmill submit balance-report 20200121 --wait \\
  --param folder=$PWD/blocked --step generate_files.failedRetries=0 || test $? = 4
rm blocked
shardmill submit balance-report 20200122 --step generate_files.workerGroup=idle
"""

_DOWNSTREAM = """cat > ledger.yaml <<'END'
jobName: ledger-close
steps: [{stepName: a}]
END
shardmill define ledger.yaml
shardmill submit ledger-close 20260105 --wait
"""

_CHANGE = """shardmill groups add big
shardmill submit balance-report 20200123 --step generate_files.workerGroup=idle
"""

_SUMMARY = """cat > rates.yaml <<'END'
jobName: rates
steps: [{stepName: a}]
END
cat > summary.yaml <<'END'
jobName: daily-summary
dependencies: [{jobName: rates}]
steps: [{stepName: a}]
END
shardmill define rates.yaml summary.yaml
curl -sSf -H "Authorization: Bearer $SHARDMILL_TOKEN" -H 'Content-Type: application/json' \\
  "$SHARDMILL_URL/v1/jobs" \\
  -d '{"jobName": "daily-summary", "trigger": "20260105T000000Z", "dataTime": "2026-01-05T00:00:00Z"}'
"""

_PRIORITIES = """shardmill groups add idle
for name in nightly report; do
  printf 'jobName: %s\\nsteps: [{stepName: a, sharding: 20, workerGroup: idle}]\\n' $name > $name.yaml
  shardmill define $name.yaml
done
"""

_AUTH = """printf 'jobName: metagenome\\ninfo: {auth: true}\\nsteps: [{stepName: a}]\\n' > metagenome.yaml
shardmill define metagenome.yaml
echo OAuth secret > ~/.shock-token
"""

_DEAD_LETTER = """.venv/bin/python - <<'END'
import json, os, boto3
session = json.load(open(os.environ["DEV_STATE"] + "/dev.json"))
sqs = boto3.client("sqs", endpoint_url=session["aws_endpoint"], region_name="us-east-1",
                   aws_access_key_id="test", aws_secret_access_key="test")
names = {each.lower(): each for each in sqs.list_queues()["QueueUrls"]}
[url] = [names[each] for each in names if "submit" in each and "dead" in each]
event = {"jobName": "balance-report", "trigger": "late"}
body = {"requestPayload": event, "requestContext": {"requestId": "x"}}
sqs.send_message(QueueUrl=url, MessageBody=json.dumps(body))
END
"""

_CHECKPOINT = """export SHARDMILL_CHECKPOINT=$PWD/checkpoint
fetch-page() { test "$1" -le 500; }
"""

PREPARATION = {
    "docs/coming-from.md": {0: """echo '{"jobName": "old", "steps": [{"stepName": "a"}]}' > old-job.json"""},
    "docs/control.md": {0: _CONTROL, 1: _DOWNSTREAM, 2: _CHANGE},
    "docs/files.md": {0: "for line in $(seq 500); do echo the quick brown fox; done > book.txt", 1: _AUTH},
    "docs/guide.md": {2: "shardmill groups add big"},
    "docs/operations.md": {0: f"{DEFINED}\n{_DEAD_LETTER}"},
    "docs/reference.md": {
        0: DEFINED,
        1: 'CURSOR=$(shardmill jobs --json --limit 1 | jq -r ".[0].jid")',
        3: "shardmill groups add big",
    },
    "docs/schedules.md": {0: DEFINED, 2: _SUMMARY, 3: ""},
    "docs/workers.md": {1: _PRIORITIES, 3: _CHECKPOINT},
}
"""By page and by the number of the block, counted from 0 without those that are not run."""
