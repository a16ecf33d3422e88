"""When waiting work starts: quantiles from runs of the one scheduling engine on sampled futures (docs/forecast.md).

`runtimes` and `arrivals` draw what is not known from what has happened; `futures` runs the engine on it; `calibration`
corrects the quantiles by the errors of earlier forecasts; `scoring` and `baseline` measure them; `forecaster` joins
them to the clock of a replay.
"""
