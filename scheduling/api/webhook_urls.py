"""Addresses of the admission webhooks: those that an API server calls, and their settings below `/api`."""

from __future__ import annotations

from django.urls import URLPattern, path

from scheduling.api import gpu_quotas, webhooks

review_urls: list[URLPattern] = [
    path("pod", webhooks.PodReview.as_view()),
    path("pod/<str:backend>", webhooks.PodReview.as_view()),
    path("pod/<str:backend>/<str:mark>", webhooks.PodReview.as_view()),
    path("gpu_quota", gpu_quotas.GpuReview.as_view()),
    path("gpu_quota/<str:backend>", gpu_quotas.GpuReview.as_view()),
    path("gpu_quota/<str:backend>/<str:mark>", gpu_quotas.GpuReview.as_view()),
    path("podgroup", webhooks.PodGroupReview.as_view()),
    path("podgroup/<str:backend>", webhooks.PodGroupReview.as_view()),
    path("podgroup/<str:backend>/<str:mark>", webhooks.PodGroupReview.as_view()),
]
settings_urls: list[URLPattern] = [
    path("configs/backend/<str:backend>/webhook", webhooks.WebhookSettings.as_view()),
    path("backend/<str:backend>/bypasses", webhooks.BypassList.as_view()),
]
