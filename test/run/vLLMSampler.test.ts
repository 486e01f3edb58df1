/** Runs that sample on a server which is down: before they begin, and in the middle. */
import { mkdirSync, readdirSync } from 'node:fs'
import { createServer } from 'node:net'
import { FailureError, keyFromSeed, orThrow } from '@tandem-rl/base'
import { liveHttpServer } from '@tandem-rl/host'
import { serveApp } from '@tandem-rl/serve'
import type { SamplingParams } from '@tandem-rl/text'
import { scope } from '@tandem-rl/tfjs-onnxruntime/scope'
import { describe, expect, it } from 'vitest'
import { wordProblems } from '../../src/data/datasets/wordProblems/wordProblems.js'
import { GSM8KEnv } from '../../src/envs/gsm8kEnv.js'
import { modelEngine } from '../../src/modules/generation/modelEngine.js'
import { makeParams } from '../../src/modules/pretrained/pretrained.js'
import { formatConfig } from '../../src/modules/transformer/config.js'
import { trainOptionsOf } from '../../src/run/define/choices.js'
import { defineRun } from '../../src/run/define/defineRun.js'
import { grpoParts } from '../../src/run/define/grpoParts.js'
import { vLLMSampler } from '../../src/run/define/vLLMSampler.js'
import { runFolder } from '../../src/run/store/store.js'
import { train } from '../../src/run/train/train.js'
import { useEngine } from '../kit/engine.js'
import { configOf } from '../kit/models.js'
import { answeringModel, contentsOf, smallSettings, useTemporaryFolder } from '../kit/runs.js'
import { tokenPrompt } from '../kit/small.js'

useEngine({ threads: 1 })
const path = useTemporaryFolder()

/** A port on which nothing listens. */
const freePort = (): Promise<number> =>
  new Promise((resolve) => {
    const server = createServer().listen(0, '127.0.0.1', () => {
      const { port } = server.address() as { readonly port: number } // it listens on a port
      server.close(() => resolve(port))
    })
  })

/** `tandem serve` in this process. `onRequest` sees the sampling of each request. */
const startServer = async (port: number, onRequest: (sampling: SamplingParams) => void = () => {}) => {
  const { config, arrays, text } = await answeringModel()
  const local = scope(() => modelEngine({ config, params: makeParams(arrays) }))
  const engine: typeof local = {
    ...local,
    generate: (request, options) => {
      onRequest(request.sampling)
      return local.generate(request, options)
    },
  }
  const app = serveApp({
    ...{ engine, text, key: keyFromSeed(1) },
    ...{ model: { names: ['policy'], root: path('.') }, features: { control: 'on' } },
  })
  const server = orThrow(await liveHttpServer(app.fetch, { port, refusal: (_, reason) => reason })())
  return async () => {
    await server.close({ graceMs: 0, atLimit: async () => void (await engine.abort()), cutMs: 0 })
    await engine.close()
  }
}

const settings = smallSettings('answering', { steps: 4, checkpointEvery: 2, alarms: 'off' })

/** A session of a run whose completions come from the server, and the steps that it did. */
const session = async (name: string, port: number, onStep: (step: number) => Promise<void> = async () => {}) => {
  const model = await answeringModel()
  mkdirSync(path(`${name}-weights`), { recursive: true })
  const sampler = await vLLMSampler({
    ...{ url: `http://127.0.0.1:${port}`, name: 'policy', model, sampling: settings.sampling },
    folder: path(`${name}-weights`),
  })
  const source = wordProblems(keyFromSeed(1), { split: 'rl' })
  const run = await defineRun(grpoParts(settings, { model, sampler, env: (tasks) => GSM8KEnv({ source, ...tasks }) }), {
    memory: 'ignore',
  })
  const steps: number[] = []
  for await (const event of train(run, { ...trainOptionsOf(settings), store: runFolder(path(name)) })) {
    if (event.type !== 'step') continue
    steps.push(event.step)
    await onStep(event.step)
  }
  return steps
}

const failureOf = async (running: Promise<unknown>): Promise<string> => {
  const error: unknown = await running.then(
    () => undefined,
    (thrown: unknown) => thrown,
  )
  if (!(error instanceof FailureError)) throw new Error('expected a FailureError', { cause: error })
  return error.message
}

const finalWeights = (name: string) => contentsOf(path(`${name}/checkpoints/step-000004`))['model.safetensors']

describe('a run that samples on a server', () => {
  it('stops at every end token of the model, whatever the server has loaded', async () => {
    const port = await freePort()
    const stops: (readonly number[])[] = []
    const stop = await startServer(port, ({ stopTokens }) => stops.push(stopTokens))
    const { config, ...rest } = await answeringModel()
    const ends = [...config.endTokens, 5]
    const model = { ...rest, config: configOf({ ...formatConfig(config), eos_token_id: ends }) }
    const sampler = await vLLMSampler({
      ...{ url: `http://127.0.0.1:${port}`, name: 'policy', model, sampling: settings.sampling },
    })
    orThrow(await sampler.policy.act(tokenPrompt([[7, 8]]), keyFromSeed(1))())
    expect(stops).toEqual([ends])
    await sampler.close()
    await stop()
  })

  it('fails before its first step if the server is down, naming it, and can begin later in the same folder', async () => {
    const port = await freePort()
    const message = await failureOf(session('before', port))
    expect(message).toMatch(
      new RegExp(`^vllm at http://127.0.0.1:${port} did not take the first weights.*ECONNREFUSED.*tandem serve --dev`),
    )
    const stop = await startServer(port)
    expect(await session('before', port)).toEqual([1, 2, 3, 4])
    await stop()
  })

  it('fails in the step in which the server goes down, naming it, and resumes to the same weights when it is back', async () => {
    const port = await freePort()
    const stopFirst = await startServer(port)
    expect(await session('whole', port)).toEqual([1, 2, 3, 4])
    const message = await failureOf(session('middle', port, async (step) => void (step === 3 && (await stopFirst()))))
    expect(message).toMatch(new RegExp(`127.0.0.1:${port}/.*ECONNREFUSED.*after 4 attempts`))
    expect(readdirSync(path('middle/checkpoints'))).toContain('step-000002')
    const stop = await startServer(port)
    expect(await session('middle', port)).toEqual([3, 4])
    expect(finalWeights('middle')).toBe(finalWeights('whole'))
    expect(finalWeights('middle')).toBeDefined()
    await stop()
  })
})
