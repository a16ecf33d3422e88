"""The judgement: who may hold next and why not, and the backends where work runs."""
