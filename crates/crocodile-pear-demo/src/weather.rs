//! Weather, in the shape of OpenWeatherMap's current weather.

use http::StatusCode;

use crate::reply::{self, Reply, parameter};

struct City {
    id: u32,
    name: &'static str,
    country: &'static str,
    /// Longitude, latitude.
    at: (f64, f64),
    /// In kelvin, as OpenWeatherMap answers without `units`.
    temperature: f64,
    sky: Sky,
}

#[derive(Clone, Copy)]
enum Sky {
    Clear,
    Clouds,
    Rain,
    Snow,
}

use Sky::{Clear, Clouds, Rain, Snow};

#[rustfmt::skip] // A table reads as a table.
const CITIES: [City; 12] = [
    City { id: 2693678, name: "Lund", country: "SE", at: (13.19, 55.71), temperature: 279.32, sky: Rain },
    City { id: 2618425, name: "Copenhagen", country: "DK", at: (12.57, 55.68), temperature: 280.15, sky: Clouds },
    City { id: 2692969, name: "Malmo", country: "SE", at: (13.0, 55.61), temperature: 279.87, sky: Clouds },
    City { id: 2673730, name: "Stockholm", country: "SE", at: (18.06, 59.33), temperature: 276.4, sky: Snow },
    City { id: 3143244, name: "Oslo", country: "NO", at: (10.75, 59.91), temperature: 274.95, sky: Snow },
    City { id: 658225, name: "Helsinki", country: "FI", at: (24.94, 60.17), temperature: 273.62, sky: Snow },
    City { id: 2950159, name: "Berlin", country: "DE", at: (13.41, 52.52), temperature: 283.21, sky: Clear },
    City { id: 2643743, name: "London", country: "GB", at: (-0.13, 51.51), temperature: 284.76, sky: Rain },
    City { id: 2988507, name: "Paris", country: "FR", at: (2.35, 48.85), temperature: 286.05, sky: Clouds },
    City { id: 2267057, name: "Lisbon", country: "PT", at: (-9.13, 38.72), temperature: 291.48, sky: Clear },
    City { id: 5128581, name: "New York", country: "US", at: (-74.01, 40.71), temperature: 282.9, sky: Clear },
    City { id: 1850147, name: "Tokyo", country: "JP", at: (139.69, 35.69), temperature: 288.33, sky: Clear },
];

/// The weather of the city that `q` names: `Lund,SE`, or `lund`.
pub fn current(query: Option<&str>) -> Reply {
    let Some(wanted) = parameter(query, "q") else {
        return refuse(StatusCode::BAD_REQUEST, "Nothing to geocode");
    };
    match CITIES.iter().find(|city| city.is(&wanted)) {
        Some(city) => reply::json(city.report()),
        None => refuse(StatusCode::NOT_FOUND, "city not found"),
    }
}

/// OpenWeatherMap's own form of a refusal.
fn refuse(status: StatusCode, message: &str) -> Reply {
    reply::with(status, reply::json(format!(r#"{{"cod":"{}","message":"{message}"}}"#, status.as_u16())))
}

impl City {
    fn is(&self, wanted: &str) -> bool {
        match wanted.split_once(',') {
            Some((name, country)) => {
                name.trim().eq_ignore_ascii_case(self.name) && country.trim().eq_ignore_ascii_case(self.country)
            }
            None => wanted.trim().eq_ignore_ascii_case(self.name),
        }
    }

    fn report(&self) -> String {
        let (code, main, description, icon) = self.sky.describe();
        serde_json::json!({
            "coord": {"lon": self.at.0, "lat": self.at.1},
            "weather": [{"id": code, "main": main, "description": description, "icon": icon}],
            "base": "stations",
            "main": {"temp": self.temperature, "pressure": 1013, "humidity": 60 + code % 37},
            "visibility": 10_000,
            "wind": {"speed": 4.6, "deg": 240},
            "dt": 1_424_217_600,
            "sys": {"country": self.country, "sunrise": 1_424_154_600, "sunset": 1_424_190_300},
            "timezone": 3_600,
            "id": self.id,
            "name": self.name,
            "cod": 200,
        })
        .to_string()
    }
}

impl Sky {
    fn describe(self) -> (u32, &'static str, &'static str, &'static str) {
        match self {
            Clear => (800, "Clear", "clear sky", "01d"),
            Clouds => (803, "Clouds", "broken clouds", "04d"),
            Rain => (500, "Rain", "light rain", "10d"),
            Snow => (600, "Snow", "light snow", "13d"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_city_is_found_by_name_and_country() {
        assert_eq!(current(Some("q=Lund,SE")).status(), StatusCode::OK);
        assert_eq!(current(Some("q=new%20york,us")).status(), StatusCode::OK);
        assert_eq!(current(Some("q=tokyo")).status(), StatusCode::OK);
        assert_eq!(current(Some("q=Lund,DK")).status(), StatusCode::NOT_FOUND);
        assert_eq!(current(None).status(), StatusCode::BAD_REQUEST);
    }

    #[test]
    fn temperatures_are_written_as_listed() {
        let report: serde_json::Value = serde_json::from_str(&CITIES[0].report()).expect("JSON");
        assert_eq!(report["name"], "Lund");
        assert_eq!(report["main"]["temp"].to_string(), "279.32");
    }
}
