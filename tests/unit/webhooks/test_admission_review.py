"""Reading an AdmissionReview and answering it."""

from __future__ import annotations

from typing import Any

import pytest

from pools.domain.errors import BadInput, Violation
from scheduling.domain.cluster.admission_review import read_review, review_response


def review(**request: Any) -> dict[str, Any]:
    return {
        "apiVersion": "admission.k8s.io/v1",
        "kind": "AdmissionReview",
        "request": {
            "uid": "u1",
            "operation": "CREATE",
            "kind": {"group": "", "version": "v1", "kind": "Pod"},
            "namespace": "team",
            "name": "p",
            "userInfo": {"username": "mallory", "groups": ["a", "b"]},
            "object": {"metadata": {"name": "p"}},
            "oldObject": None,
            "dryRun": False,
            **request,
        },
    }


def test_reading() -> None:
    question = read_review(review(dryRun=True))
    assert (question.uid, question.operation, question.kind, question.namespace, question.name) == (
        "u1", "CREATE", "Pod", "team", "p",
    )  # fmt: skip
    assert (question.caller.username, question.caller.groups) == ("mallory", frozenset({"a", "b"}))
    assert question.new_object == {"metadata": {"name": "p"}}
    assert question.old_object is None
    assert question.is_dry_run


@pytest.mark.parametrize(
    ("body", "paths"),
    [
        (None, ["request"]),
        ([], ["request"]),
        ({}, ["request"]),
        ({"request": "x"}, ["request"]),
        (review(uid=""), ["request.uid"]),
        (review(uid=None, kind={}), ["request.uid", "request.kind.kind"]),
        (review() | {"apiVersion": "admission.k8s.io/v1beta1"}, ["apiVersion"]),
        (review(object=[1]), ["request.object"]),
        (review(userInfo="root"), ["request.userInfo"]),
    ],
)
def test_an_invalid_review_is_refused_with_every_fault(body: Any, paths: list[str]) -> None:
    with pytest.raises(BadInput) as caught:
        read_review(body)
    assert [violation.path for violation in caught.value.details] == paths


def test_allowing() -> None:
    assert review_response(read_review(review()), warnings=["w" * 500]) == {
        "apiVersion": "admission.k8s.io/v1",
        "kind": "AdmissionReview",
        "response": {"uid": "u1", "allowed": True, "warnings": ["w" * 240]},
    }


def test_a_refusal_names_every_violation_once() -> None:
    found = [
        Violation("spec.a", "both_minimums", "One."),
        Violation("spec.b", "cycle", "Two."),
        Violation("spec.c", "cycle", "Two."),
    ]
    response = review_response(read_review(review()), found)["response"]
    assert response["allowed"] is False
    assert response["status"]["code"] == 422
    assert response["status"]["message"] == "One. Two."
    assert [cause["field"] for cause in response["status"]["details"]["causes"]] == ["spec.a", "spec.b", "spec.c"]


def test_foreign_work_is_forbidden_not_invalid() -> None:
    response = review_response(read_review(review()), [Violation("spec.queue", "foreign_work", "No.")])["response"]
    assert (response["status"]["code"], response["status"]["reason"]) == (403, "Forbidden")
