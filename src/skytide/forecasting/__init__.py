"""Forecasts of rates, for controllers and for admission."""

from skytide.forecasting.forecaster import Forecast, Forecaster, ForecasterLogic, LastValue
from skytide.forecasting.holt import Holt, HoltWinters, ahead, smooth

__all__ = ["Forecast", "Forecaster", "ForecasterLogic", "Holt", "HoltWinters", "LastValue", "ahead", "smooth"]
