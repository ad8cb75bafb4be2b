//! An upstream whose items change: it reads the database that tells of it, or its own memory. Its answers may be kept for
//! an hour, and name their item as a tag.

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use axum::Router;
use axum::extract::Path;
use axum::response::IntoResponse;
use axum::routing::get;
use tokio_postgres::{Client, NoTls, Statement};

use crate::stage::served::Served;

/// So many items.
pub const ITEMS: usize = 50;

pub struct Shop {
    pub address: SocketAddr,
    /// Where there is no database.
    pub values: Arc<Vec<AtomicU64>>,
    /// Requests that came.
    pub asked: Arc<AtomicU64>,
    _served: Served,
}

#[derive(Clone)]
struct Items {
    values: Arc<Vec<AtomicU64>>,
    asked: Arc<AtomicU64>,
    database: Option<(Arc<Client>, Statement)>,
}

impl Shop {
    /// Items in memory.
    pub fn new() -> Self {
        Self::begin(None)
    }

    /// Items in the table `items`.
    pub fn of(url: &str) -> Self {
        Self::begin(Some(url))
    }

    fn begin(url: Option<&str>) -> Self {
        let values: Arc<Vec<AtomicU64>> = Arc::new((0..ITEMS).map(|_| AtomicU64::new(0)).collect());
        let asked = Arc::new(AtomicU64::new(0));
        let (url, items) =
            (url.map(str::to_owned), Items { values: values.clone(), asked: asked.clone(), database: None });
        let served = Served::run(move |listener| async move {
            let database = match url {
                Some(url) => Some(connect(&url).await),
                None => None,
            };
            let items = Items { database, ..items };
            let app = Router::new().route("/items/{id}", get(move |path: Path<usize>| items.clone().answer(path)));
            axum::serve(listener, app).await
        });
        Shop { address: served.address, values, asked, _served: served }
    }
}

impl Items {
    async fn answer(self, Path(id): Path<usize>) -> impl IntoResponse {
        self.asked.fetch_add(1, Ordering::SeqCst);
        let value = match &self.database {
            None => self.values[id].load(Ordering::SeqCst),
            Some((client, statement)) => {
                let row = client.query_one(statement, &[&(id as i32)]).await.unwrap();
                row.get::<_, i64>(0) as u64
            }
        };
        let fields = [("cache-control", "max-age=3600".to_owned()), ("cache-tag", format!("item:{id}, items"))];
        (fields, value.to_string())
    }
}

async fn connect(url: &str) -> (Arc<Client>, Statement) {
    let (client, connection) = tokio_postgres::connect(url, NoTls).await.unwrap();
    tokio::spawn(connection);
    let statement = client.prepare("select value from items where id = $1").await.unwrap();
    (Arc::new(client), statement)
}
