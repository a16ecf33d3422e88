"""Bodies that no file of ours would hold: each is refused in a sentence, quickly, and never with a 500."""

from __future__ import annotations

import json

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from scheduling.api.yaml_bodies import MAX_BODY_VALUES, MAX_EXPANDED_CHARACTERS
from tests.integration.podgroups.conftest import PostPodGroup

BOTH = ("validate", "plan")
LAUGHS = "".join(f"a{i}: &a{i} [{', '.join([f'*a{i - 1}'] * 9)}]\n" for i in range(1, 10))
STAIRS = "".join(f"- &a{i} [*a{i - 1}]\n" for i in range(1, 2000))
LONG_KEY = json.dumps({"k" * 2**20: [0] * 1000})

REFUSED = {
    "no-utf8": (b"spec: \xff", "UTF-8"),
    "surrogate-in-a-tag": (b"spec: !%ED%A0%80 3", "UTF-8"),
    "no-yaml": ("spec: [", "not valid YAML"),
    "no-json": ('{"spec": {"minMember": 1}', "not valid YAML"),
    "two-documents": ("spec: {}\n---\nspec: {}\n", "several documents"),
    "second-broken": ("spec: {}\n---\nspec: [\n", "not valid YAML"),
    "only-a-comment": ("# nothing\n", "empty"),
    "nan": ('{"spec": {"minMember": NaN}}', "The value is not a number"),
    "infinity": ('{"spec": {"minMember": -Infinity}}', "The value is not a number"),
    "yaml-nan": ("spec: {minMember: .nan}", "The value is not a number"),
    "many-digits": ("spec: {minMember: " + "9" * 5000 + "}", "too many digits"),
    "huge-exponent": ("spec: {minMember: 1e999999999}", "too many digits"),
    "python-tag": ("spec: !!python/object/apply:os.system [ls]", "is not known here"),
    "twice-in-json": ('{"spec": {}, "spec": {"minMember": 1}}', "'spec' is given twice"),
    "twice-in-yaml": ("spec: {minMember: 1, minMember: 2}", "'minMember' is given twice"),
    "laughs": ("a0: &a0 lol\n" + LAUGHS, "values"),
    "alias-stairs": ("spec:\n- &a0 x\n" + STAIRS, "levels deep"),
    "itself": ("spec: &a [*a]", "alias"),
    "deep-json": ("[" * 100_000 + "]" * 100_000, "levels deep"),
    "rather-deep-json": ('{"spec": ' + "[" * 300 + "]" * 300 + "}", "levels deep"),
    "deep-yaml": ("- " * 5000 + "x", "levels deep"),
    "many-values": ('{"spec": {"subGroups": [' + "0," * MAX_BODY_VALUES + "0]}}", "values"),
    "long-text-often": ("a: &a " + "x" * 2**20 + "\nb: [" + "*a," * 40 + "]", "spells out"),
    "long-paths": (LONG_KEY, "spells out"),
    "nul": (json.dumps({"spec": {"subGroups": [{"name": "a\0"}]}}), "NUL"),
    "nul-in-yaml": ('spec: {subGroups: [{name: "a\\0"}]}', "NUL"),
    "half-a-pair": (json.dumps({"spec": {"subGroups": [{"name": "\ud800"}, {"name": "\ud800"}]}}), "surrogate"),
    "half-a-pair-as-a-key": (json.dumps({"\ud800": {"\udfff": 1}}), "surrogate"),
}


def test_what_cannot_be_read_is_refused_in_a_sentence(post: PostPodGroup) -> None:
    """Both endpoints read a body by the same function; `plan` gets some of them too."""
    some = ("no-utf8", "no-yaml", "laughs", "twice-in-json", "nul")
    for name, (body, sentence) in REFUSED.items():
        for which in BOTH if name in some else BOTH[:1]:
            status, answer = post(which, body, idempotency_key="k")
            assert (status, answer["error_code"]) == (400, "USER"), name
            assert sentence in answer["message"], name
            assert len(answer["message"]) < 1000, name
            assert answer["details"], name
            assert all(each.keys() >= {"path", "code", "message"} for each in answer["details"]), name


def test_faults_are_reported_all_at_once_with_their_paths(post: PostPodGroup) -> None:
    status, answer = post("validate", "spec: {minMember: .nan, subGroups: [{name: a, minMember: .inf}]}")
    assert status == 400
    assert [each["path"] for each in answer["details"]] == ["spec.minMember", "spec.subGroups[0].minMember"]


def test_a_line_is_named_where_the_text_breaks_off(post: PostPodGroup) -> None:
    status, answer = post("validate", "spec:\n  minMember: 1\n minSubGroup: 2\n")
    assert status == 400
    assert answer["details"][0]["line"] == 3


def test_what_is_just_inside_the_bounds_is_answered(post: PostPodGroup) -> None:
    valid = (200, {"valid": True, "violations": []})
    text = {"metadata": {"note": "x" * (MAX_EXPANDED_CHARACTERS - 1000)}, "spec": {"minMember": 1}}
    assert post("validate", json.dumps(text)) == valid
    many = {"metadata": {"names": ["n"] * (MAX_BODY_VALUES - 100)}, "spec": {"minMember": 1}}
    assert post("validate", json.dumps(many)) == valid


def test_other_kinds_of_values_get_an_answer(post: PostPodGroup) -> None:
    for body in ("", "null", "3", "text", "[]", "{}", "spec:", "spec: []", "podgroup: {spec: {}}"):
        status, answer = post("validate", body)
        assert (status, answer["valid"]) == (200, False), body
        assert post("plan", body)[0] == (200 if body.startswith("podgroup") else 400), body


def test_a_form_with_files_is_no_manifest(post: PostPodGroup) -> None:
    body = '--x\r\nContent-Disposition: form-data; name="file"\r\n\r\nspec: {}\r\n--x--\r\n'
    assert post("validate", body, "multipart/form-data; boundary=x", idempotency_key="k")[0] == 400


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow])
@given(st.binary(max_size=60) | st.text("{}[]&*a:-?!%'\"|>#, \n\t0.e\\uxd8", max_size=60))
def test_any_bytes_get_an_answer(post: PostPodGroup, body: bytes | str) -> None:
    for which in BOTH:
        assert post(which, body.encode() if isinstance(body, str) else body)[0] in {200, 400}


def test_a_gang_too_large_for_one_answer_is_refused_before_it_is_planned(post: PostPodGroup) -> None:
    groups = [{"name": f"g{number}", "minMember": 1} for number in range(1001)]
    pods = [{"name": f"p{number}", "sub_group": "g0", "state": "Running"} for number in range(1000)]
    body = {"podgroup": {"kind": "PodGroup", "spec": {"subGroups": groups}}, "pods": pods}
    status, answer = post("plan", json.dumps(body))
    assert status == 400
    assert answer["details"][0]["code"] == "too_large"


def test_keys_given_often_are_reported_soon(post: PostPodGroup) -> None:
    status, answer = post("validate", "a: 1\n" * 20_000)
    assert status == 400
    assert "is given twice" in answer["message"]
