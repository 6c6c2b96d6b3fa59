//! What somebody else does to etcd: the few requests that tests make beside the bus.

use bailiff_runtime::args::Address;
use tonic::Request;
use tonic::client::Grpc;
use tonic::codegen::http::uri::PathAndQuery;
use tonic::transport::{Channel, Endpoint};

#[derive(Clone, PartialEq, prost::Message)]
struct RangeRequest {
    #[prost(bytes = "vec", tag = "1")]
    key: Vec<u8>,
    #[prost(bytes = "vec", tag = "2")]
    range_end: Vec<u8>,
}

#[derive(Clone, PartialEq, prost::Message)]
struct RangeResponse {
    #[prost(message, repeated, tag = "2")]
    kvs: Vec<KeyValue>,
}

#[derive(Clone, PartialEq, prost::Message)]
pub struct KeyValue {
    #[prost(bytes = "vec", tag = "1")]
    pub key: Vec<u8>,
}

#[derive(Clone, PartialEq, prost::Message)]
struct PutRequest {
    #[prost(bytes = "vec", tag = "1")]
    key: Vec<u8>,
    #[prost(bytes = "vec", tag = "2")]
    value: Vec<u8>,
}

#[derive(Clone, PartialEq, prost::Message)]
struct DeleteRangeRequest {
    #[prost(bytes = "vec", tag = "1")]
    key: Vec<u8>,
}

#[derive(Clone, PartialEq, prost::Message)]
struct Nothing {}

/// A client of one member.
pub struct Raw {
    client: Grpc<Channel>,
}

impl Raw {
    /// Connects, as soon as it answers.
    pub async fn connect(address: &Address) -> Self {
        let endpoint = Endpoint::from_shared(address.http_url()).unwrap();
        let client = Grpc::new(endpoint.connect_lazy());
        let mut raw = Self { client };
        while raw.try_put("/nobody/", "").await.is_err() {
            tokio::time::sleep(std::time::Duration::from_millis(10)).await;
        }
        raw
    }

    pub async fn put(&mut self, key: &str, value: &str) {
        self.try_put(key, value).await.unwrap();
    }

    /// All keys that begin so.
    pub async fn keys(&mut self, prefix: &str) -> Vec<String> {
        let mut range_end = prefix.as_bytes().to_vec();
        *range_end.last_mut().unwrap() += 1;
        let request = RangeRequest {
            key: prefix.into(),
            range_end,
        };
        let found: RangeResponse = self.call("/etcdserverpb.KV/Range", request).await.unwrap();
        let text = |kv: KeyValue| String::from_utf8(kv.key).unwrap();
        found.kvs.into_iter().map(text).collect()
    }

    pub async fn delete(&mut self, key: &str) {
        let request = DeleteRangeRequest { key: key.into() };
        let _: Nothing = self.call("/etcdserverpb.KV/DeleteRange", request).await.unwrap();
    }

    async fn try_put(&mut self, key: &str, value: &str) -> Result<Nothing, tonic::Status> {
        let (key, value) = (key.into(), value.into());
        self.call("/etcdserverpb.KV/Put", PutRequest { key, value }).await
    }

    async fn call<Q, A>(&mut self, path: &'static str, request: Q) -> Result<A, tonic::Status>
    where
        Q: prost::Message + 'static,
        A: prost::Message + Default + 'static,
    {
        let refused = |error: tonic::transport::Error| tonic::Status::unavailable(error.to_string());
        self.client.ready().await.map_err(refused)?;
        let codec = tonic_prost::ProstCodec::default();
        let path = PathAndQuery::from_static(path);
        Ok(self.client.unary(Request::new(request), path, codec).await?.into_inner())
    }
}
