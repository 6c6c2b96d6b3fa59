//! How messages are taken apart: as `tonic_prost` does it, but in one piece, of which fields of bytes are parts.

use std::marker::PhantomData;

use prost::Message;
use prost::bytes::Buf;
use tonic::Status;
use tonic::codec::{BufferSettings, DecodeBuf, Decoder};
use tonic_prost::{ProstCodec, ProstEncoder};

/// Encodes a `T` and decodes a `U`.
#[derive(Debug)]
pub struct Codec<T, U>(PhantomData<(T, U)>);

/// Decodes a `U`.
#[derive(Debug)]
pub struct WholeDecoder<U>(PhantomData<U>);

impl<T, U> Default for Codec<T, U> {
    fn default() -> Self {
        Self(PhantomData)
    }
}

impl<T, U> tonic::codec::Codec for Codec<T, U>
where
    T: Message + Send + 'static,
    U: Message + Default + Send + 'static,
{
    type Encode = T;
    type Decode = U;
    type Encoder = ProstEncoder<T>;
    type Decoder = WholeDecoder<U>;

    fn encoder(&mut self) -> Self::Encoder {
        ProstCodec::<T, U>::raw_encoder(BufferSettings::default())
    }

    fn decoder(&mut self) -> Self::Decoder {
        WholeDecoder(PhantomData)
    }
}

impl<U: Message + Default> Decoder for WholeDecoder<U> {
    type Item = U;
    type Error = Status;

    fn decode(&mut self, buf: &mut DecodeBuf<'_>) -> Result<Option<U>, Status> {
        // Nothing is copied: it is taken out of tonic's buffer.
        let decoded = U::decode(buf.copy_to_bytes(buf.remaining()));
        // As `tonic_prost` has it: the transport or the other side is broken.
        decoded.map(Some).map_err(|error| Status::internal(error.to_string()))
    }
}
