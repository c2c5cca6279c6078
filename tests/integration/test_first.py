from support.cloud import Cloud
from support.hands import Hands
from shardmill.engine.mill import mill


def test_one(cloud: Cloud) -> None:
    d = {"steps": [{"stepName": "a", "sharding": 12}, {"stepName": "b", "dependentStep": "a"}]}
    r = cloud.http("PUT", "/v1/definitions/balance", d)
    assert r.status == 201, r.json
    r = cloud.http("POST", "/v1/jobs", {"jobName": "balance", "trigger": "t1"})
    assert r.status == 202, r.json
    hands = Hands(mill())
    def done():
        return cloud.http("GET", "/v1/jobs/balance/t1").json["state"] == "SUCCESS"
    cloud.run_until(done, timeout=20, meanwhile=hands.work)
    print(cloud.http("GET", "/v1/jobs/balance/t1").json)
