/** Workers over real processes: `tandem serve` with a scripted engine, and shells that go wrong. */
import { once } from 'node:events'
import { createServer } from 'node:net'
import { afterAll, describe, expect, it } from 'vitest'
import { EMBEDDED_MODEL } from '../../../../src/live/embeddedModel.js'
import {
  makeVLLMWorker,
  type VLLMWorker,
  type VLLMWorkerOptions,
} from '../../../../src/modules/remote/vllmWorker/vllmWorker.js'
import { compiled } from '../../../kit/compiled.js'
import { gone, isAlive } from '../../../kit/resources.js'
import { leftOf, rightOf } from '../../../kit/results.js'

const TANDEM: VLLMWorkerOptions = {
  command: [process.execPath, compiled('test/kit/serveMain.ts')],
  flavor: 'tandem',
  graceMs: 60_000,
}

const CONFIG = { model: EMBEDDED_MODEL, servedModelName: 'cat', threads: 1, shutdownSeconds: 0 }

const workers: VLLMWorker[] = []
afterAll(() => Promise.all(workers.map((worker) => worker.stop())))

const start = async (options: VLLMWorkerOptions = {}, config = {}): Promise<VLLMWorker> => {
  const worker = await rightOf(makeVLLMWorker({ ...CONFIG, ...config }, { ...TANDEM, ...options }))
  workers.push(worker)
  return worker
}

/** A worker that is a shell. */
const shell = (script: string, options: VLLMWorkerOptions = {}) =>
  makeVLLMWorker(
    { model: 'm' },
    { command: ['sh', '-c', script, 'server'], startMs: 120_000, graceMs: 100, ...options },
  )

describe('a worker', () => {
  it("serves the given model, with control and its key, prints its log's place, and stops", async () => {
    const apiKey = 'sk-planted-secret-1234'
    const worker = await start({ apiKey }, { maxModelLen: 77 })
    expect(worker.model).toBe('cat')
    const headers = { authorization: `Bearer ${apiKey}` }
    const models = (await (await fetch(`${worker.url}/v1/models`, { headers })).json()) as { data: readonly object[] }
    expect(models.data[0]).toMatchObject({ id: 'cat', max_model_len: 77 })
    expect((await fetch(`${worker.url}/v1/models`)).status).toBe(401)
    expect((await fetch(`${worker.url}/is_paused`)).status).toBe(200)
    expect(worker.log().join('\n')).toContain('raw_logprobs')
    expect(worker.log().join('\n')).not.toContain(apiKey)
    expect(await worker.stop()).toMatchObject({ how: 'stopped' })
    expect(isAlive(worker.pid)).toBe(false)
    expect(await worker.stop()).toMatchObject({ how: 'stopped' })
  })

  it('answers to the model of its arguments, whose path `tandem serve` would shorten', async () => {
    const worker = await start({}, { servedModelName: undefined })
    const models = (await (await fetch(`${worker.url}/v1/models`)).json()) as { data: readonly object[] }
    expect(models.data[0]).toMatchObject({ id: worker.model })
  })

  it('that crashes is reported, with the end of its log', async () => {
    const worker = await start()
    process.kill(worker.pid, 'SIGKILL')
    const end = await worker.ended
    expect(end).toMatchObject({ how: 'crashed', signal: 'SIGKILL' })
    expect(end.reason).toMatch(/was ended by SIGKILL; the log ends with:\n[\s\S]*requests at a time/)
  })

  it('whose model is none tells what its log says', async () => {
    const failure = await leftOf(makeVLLMWorker({ ...CONFIG, model: '/no/such/model' }, TANDEM))
    expect(failure).toMatchObject({ _tag: 'WorkerFailure', kind: 'model' })
    expect(failure.reason).toContain('/no/such/model')
  })

  it('with an argument that its server does not know names it', async () => {
    const failure = await leftOf(makeVLLMWorker({ ...CONFIG, noSuchThing: 1 }, TANDEM))
    expect(failure).toMatchObject({ kind: 'arguments', reason: expect.stringContaining('--no-such-thing') })
  })
})

describe('a start that fails', () => {
  it('because the program is missing explains its installation', async () => {
    const failure = await leftOf(makeVLLMWorker({ model: 'm' }, { command: ['/no/bin/vllm', 'serve'] }))
    expect(failure).toMatchObject({ kind: 'executable', reason: expect.stringContaining('pip install vllm') })
  })

  it('because of its arguments starts nothing', async () => {
    const failure = await leftOf(makeVLLMWorker({ model: '', seed: Number.NaN }, { command: ['/no/bin/vllm'] }))
    expect(failure).toMatchObject({
      kind: 'arguments',
      reason: expect.stringContaining('seed must be a finite number'),
    })
  })

  it('because the port is taken is reported before anything runs', async () => {
    const server = createServer().listen(0, '127.0.0.1')
    await once(server, 'listening')
    const address = server.address()
    const port = typeof address === 'object' && address !== null ? address.port : 0
    expect(await leftOf(shell('sleep 1000', { port }))).toMatchObject({ kind: 'port', log: [] })
    server.close()
  })

  it('reports the last lines of the log, without secrets', async () => {
    const failure = await leftOf(
      shell('echo "key $VLLM_API_KEY mode $VLLM_SERVER_DEV_MODE"; echo "CUDA out of memory" >&2; exit 7', {
        apiKey: 'planted-key',
      }),
    )
    expect(failure).toMatchObject({ kind: 'memory' })
    for (const word of ['ended with code 7', 'lower gpuMemoryUtilization', 'key *** mode 1'])
      expect(failure.reason).toContain(word)
    expect(JSON.stringify(failure)).not.toContain('planted-key')
  })

  it('because it takes too long, or is called off, leaves nothing running', async () => {
    const late: number[] = []
    const script = 'echo $$; sleep 1000 & echo $!; wait'
    const limits = { startMs: 300, onLine: (line: string) => late.push(Number(line)) }
    expect(await leftOf(shell(script, limits))).toMatchObject({ kind: 'timeout' })
    await Promise.all(late.map(gone))
    const controller = new AbortController()
    const pids: number[] = []
    const starting = leftOf(
      shell(script, {
        signal: controller.signal,
        onLine: (line) => {
          if (pids.push(Number(line)) === 2) controller.abort()
        },
      }),
    )
    expect(await starting).toMatchObject({ kind: 'cancelled' })
    expect(pids.length).toBe(2)
    await Promise.all(pids.map(gone))
  })
})
