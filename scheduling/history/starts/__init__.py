"""When work starts: the forecasts that the background keeps, and the answer to a question of a person."""
