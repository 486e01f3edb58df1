/** The protobuf form of the protocol: round trips, bytes of the Python SDK, and hostile bytes. */
import { orThrow } from '@tandem-rl/base'
import fc from 'fast-check'
import * as E from 'fp-ts/lib/Either.js'
import { describe, expect, it } from 'vitest'
import {
  decodeForwardBackward,
  decodeForwardBackwardOutput,
  decodeSampleResult,
  encodeForwardBackward,
  encodeForwardBackwardOutput,
  encodeSampleResult,
} from '../src/protocol/protobufWire.js'
import { floatTensor, integerTensor, type WireTensor } from '../src/protocol/values.js'

const float = fc.float({ noNaN: true, noDefaultInfinity: true })
const id = fc.integer({ min: 0, max: 2 ** 31 - 1 })

const plain = (tensor: WireTensor) => ({ ...tensor, data: Array.from(tensor.data) })

const request = fc.record({
  modelId: fc.string(),
  seqId: fc.option(fc.integer({ min: 1, max: 1e6 })),
  data: fc.array(
    fc.record({
      tokens: fc.array(id, { maxLength: 5 }),
      inputs: fc.record({
        target_tokens: fc.array(id, { maxLength: 5 }).map(integerTensor),
        weights: fc.array(float, { maxLength: 5 }).map(floatTensor),
      }),
    }),
    { maxLength: 3 },
  ),
  lossFn: fc.string(),
  lossConfig: fc.record({ beta: float, name: fc.string() }),
  mode: fc.constantFrom('forward' as const, 'backward' as const),
})

describe('protobuf', () => {
  it('gives back the requests that it wrote', () => {
    fc.assert(
      fc.property(request, (given) => {
        const read = orThrow(decodeForwardBackward(encodeForwardBackward(given)))
        expect({
          ...read,
          data: read.data.map(({ tokens, inputs }) => ({
            tokens: Array.from(tokens),
            inputs: Object.fromEntries(Object.entries(inputs).map(([name, each]) => [name, plain(each)])),
          })),
        }).toEqual({ ...given, data: given.data.map(({ tokens, inputs }) => ({ tokens, inputs })) })
      }),
    )
  })

  it('gives back the results that it wrote', () => {
    const rows = fc.array(fc.array(float, { maxLength: 4 }), { maxLength: 4 })
    fc.assert(
      fc.property(rows, (all) => {
        const output = { outputs: all.map((row) => ({ logprobs: floatTensor(row) })), metrics: { 'loss:sum': 1.5 } }
        const read = orThrow(decodeForwardBackwardOutput(encodeForwardBackwardOutput(output)))
        expect(read.metrics).toEqual(output.metrics)
        expect(read.outputs.map(({ logprobs }) => plain(logprobs!))).toEqual(
          output.outputs.map(({ logprobs }) => logprobs),
        )
      }),
    )
  })

  it('gives back samples with and without log-probabilities of the prompt', () => {
    const result = {
      sequences: [
        { stopReason: 'stop' as const, tokens: Int32Array.of(4, 5), logProbs: Float32Array.of(-1, -0.5) },
        { stopReason: 'length' as const, tokens: Int32Array.of(), logProbs: null },
      ],
      promptLogProbs: [null, -1],
      topPromptLogProbs: [null, [[3, -0.5] as const]],
      cachedTokens: 2,
    }
    expect(orThrow(decodeSampleResult(encodeSampleResult(result)))).toEqual(result)
    const without = { ...result, promptLogProbs: null, topPromptLogProbs: null }
    expect(orThrow(decodeSampleResult(encodeSampleResult(without)))).toEqual(without)
  })

  it('refuses hostile bytes as values', () => {
    fc.assert(
      fc.property(fc.uint8Array({ maxLength: 60 }), (bytes) => {
        for (const decode of [decodeForwardBackward, decodeForwardBackwardOutput, decodeSampleResult]) {
          const read = decode(bytes)
          if (E.isLeft(read)) expect(read.left._tag).toBe('FormatFailure')
        }
      }),
    )
  })

  it('makes no list as long as a server claims', () => {
    const many = [0xff, 0xff, 0xff, 0xff, 0x07] // 2^31 - 1
    const outputs = Uint8Array.of(18, 6, 24, ...many) // record 2, count 3
    const limit = { reason: expect.stringContaining('at most') }
    expect(decodeForwardBackwardOutput(outputs)).toMatchObject({ left: limit })
    const places = Uint8Array.of(26, 6, 32, ...many) // most probable tokens 3, places 4
    expect(decodeSampleResult(places)).toMatchObject({ left: limit })
  })

  it('names what it does not support', () => {
    const sparse = Uint8Array.of(26, 13, 18, 11, 10, 1, 120, 18, 6, 18, 4, 10, 2, 0, 0) // datum 3, input x, sparse_csr
    expect(decodeForwardBackward(sparse)).toMatchObject({ left: { reason: expect.stringContaining('sparse') } })
    const image = Uint8Array.of(26, 4, 10, 2, 18, 0) // datum 3, chunk 1, image 2
    expect(decodeForwardBackward(image)).toMatchObject({ left: { reason: expect.stringContaining('encoded_text') } })
  })
})
