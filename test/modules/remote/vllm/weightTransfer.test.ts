import { describe, expect, it } from 'vitest'
import { orThrow } from '../../../../src/core/failure.js'
import { vLLMWeightTransfer } from '../../../../src/modules/remote/vllm/weightTransfer.js'
import { type Answering, answeredBy } from '../../../kit/wire.js'

const transferWith = (answer: Answering) => {
  const transport = answeredBy(answer)
  return { transport, transfer: vLLMWeightTransfer({ transport }) }
}

describe('vLLMWeightTransfer', () => {
  it('sends the four phases as vLLM 0.32 reads them', async () => {
    const { transport, transfer } = transferWith(async () => ({ status: 200, text: '{"message": "done"}' }))
    orThrow(await transfer.init({ master_port: 1 })())
    orThrow(await transfer.start())
    orThrow(await transfer.update({ names: ['a'] })())
    orThrow(await transfer.finish(7)())
    orThrow(await transfer.finish()())
    orThrow(await transfer.shutdown())
    expect(transport.seen.map(({ path, json }) => [path, json])).toEqual([
      ['/init_weight_transfer_engine', { init_info: { master_port: 1 } }],
      ['/start_weight_update', undefined],
      ['/update_weights', { update_info: { names: ['a'] } }],
      ['/finish_weight_update', { weight_version: '7' }],
      ['/finish_weight_update', undefined],
      ['/shutdown_weight_transfer_engine', undefined],
    ])
  })

  it('reads the size of the world and the checksums', async () => {
    const { transfer } = transferWith(async ({ path }) => ({
      status: 200,
      text: path === '/weight_checker' ? '{"checksums": {"tp0:w": "ab"}}' : '{"world_size": 2}',
    }))
    expect(orThrow(await transfer.worldSize())).toBe(2)
    expect(orThrow(await transfer.checksums()).get('tp0:w')).toBe('ab')
  })

  it('does not know what came of a call whose answer is missing, and knows of one that was never there', async () => {
    const { transfer } = transferWith(async ({ path }) =>
      path === '/update_weights' ? { kind: 'reset' } : { status: 404, text: '{"detail": "Not Found"}' },
    )
    expect(await transfer.update({})()).toMatchObject({ left: { kind: 'unknown' } })
    expect(await transfer.start()).toMatchObject({ left: { kind: 'missing' } })
  })
})
