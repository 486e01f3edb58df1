/**
 * Sessions of an HTTP service as resources: their use, their failures, and that none is left open.
 */
import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'
import { getRequestListener } from '@hono/node-server'
import {
  type HttpFailure,
  type HttpFailureKind,
  type HttpReply,
  type HttpRequest,
  keyFromSeed,
  orThrow,
  type Transport,
} from '@tandem-rl/base'
import { liveTransport } from '@tandem-rl/host'
import { scriptedHistoryPolicy } from '@tandem-rl/testing'
import { message } from '@tandem-rl/text'
import { own } from '@tandem-rl/tfjs-onnxruntime/scope'
import * as E from 'fp-ts/lib/Either.js'
import { pipe } from 'fp-ts/lib/function.js'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { get } from '../../../../src/data/tensorDict/tensorDict.js'
import { DatasetChatEnv } from '../../../../src/envs/datasetChatEnv.js'
import { worldReward } from '../../../../src/envs/rewards/worldReward.js'
import { rollout } from '../../../../src/envs/rollout.js'
import { rewardTransform } from '../../../../src/envs/transforms/rewardTransform.js'
import { append } from '../../../../src/envs/transforms/transform.js'
import { useEngine } from '../../../../test/kit/engine.js'
import { callOf } from '../../../../test/kit/tools.js'
import { serviceResource } from '../../src/processes/serviceResource.js'
import { resourcePool } from '../../src/resources/resourcePool.js'
import { remoteWorldTool } from '../../src/tools/remoteWorldTool.js'
import { SimpleToolTransform } from '../../src/tools/simpleToolTransform.js'
import { ToolRegistry } from '../../src/tools/toolRegistry.js'
import { taskGoal } from '../../src/tools/worldTool.js'
import { shopSolution, shopTasks, shopWorld } from '../../src/worlds/shop.js'
import { worldService } from '../../src/worlds/worldService.js'

useEngine()

describe('serviceResource', () => {
  const service = worldService(shopWorld())
  const server = createServer(getRequestListener(service.handle))
  let url = ''
  beforeAll(async () => {
    await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
    url = `http://127.0.0.1:${(server.address() as AddressInfo).port}`
  })
  afterAll(() => new Promise((resolve) => server.close(resolve)))

  it('plays a world of a service as the embedded one plays it, and ends its sessions', async () => {
    const transport = liveTransport({ url })
    const shop = remoteWorldTool({ name: 'shop', description: 'A shop.', transport, poolSize: 2 })
    const source = shopTasks(keyFromSeed(2))
    const env = pipe(
      DatasetChatEnv({ source, prompts: 1, keep: 'task' }),
      append(SimpleToolTransform({ registry: ToolRegistry([shop]) })),
      append(rewardTransform({ reward: worldReward({ tool: 'shop' }) })),
    )
    const answers = shopSolution(orThrow(source.at(0))).map((action) =>
      message('assistant', '', { toolCalls: [callOf('shop', { action })] }),
    )
    const policy = scriptedHistoryPolicy({ answers })
    const steps = own(orThrow(await rollout(env, policy, { steps: 9, key: keyFromSeed(1) })()))
    expect([...get(steps.value, 'next', 'reward').dataSync()]).toEqual([0, 0, 0, 0, 1])
    steps.release()
    await shop.close?.()
    expect(service.sessions()).toBe(0)
    await transport.close()
  })

  it('names a service that is gone, and a request that it refuses', async () => {
    const transport = liveTransport({ url })
    const pool = resourcePool(serviceResource('shop', transport))
    const lease = orThrow(await pool.acquire({ args: undefined })())
    expect(await lease.resource.post('act', { action: 'x' })()).toMatchObject({ left: { kind: 'dead' } })
    expect(lease.resource.isAlive()).toBe(false)
    await lease.end()
    await transport.close()
    expect(await pool.acquire({ args: undefined })()).toMatchObject({ left: { kind: 'start' } })
    expect(service.sessions()).toBe(0)
    expect(E.isLeft(shopWorld().start(null))).toBe(true)
  })
})

/** The failure of a request that the service may have acted on. */
const lost = (path: string, kind: HttpFailureKind): HttpFailure => ({
  ...{ _tag: 'HttpFailure', kind, server: 'test', path, acted: 'perhaps', attempts: 1, reason: 'the answer was lost' },
})

/**
 * Hands requests to a service without a network. `meddle` replaces an answer after the service has
 * acted.
 */
const transportTo = (
  handle: (request: Request) => Promise<Response>,
  meddle: (request: HttpRequest) => Promise<HttpFailure | undefined>,
): Pick<Transport, 'send'> => ({
  send: (request) => async (): Promise<E.Either<HttpFailure, HttpReply>> => {
    const { method, path, json } = request
    const body = method === 'POST' ? { body: JSON.stringify(json) } : {}
    const answer = await handle(new Request(`http://test${path}`, { method, ...body }))
    const failure = await meddle(request)
    if (failure !== undefined) return E.left(failure)
    const { status } = answer
    if (status !== 200) return E.left({ ...lost(path, 'status'), status })
    return E.right({ status, headers: {}, server: 'test', attempts: 1, text: await answer.text() })
  },
})

describe('serviceResource leaves no session open', () => {
  const use = (meddle: Parameters<typeof transportTo>[1]) => {
    const service = worldService(shopWorld())
    const transport = transportTo(service.handle, meddle) as Transport // a spec of sessions only sends
    return { service, pool: resourcePool(serviceResource('shop', transport, { endMs: 20 })) }
  }
  const isOpening = ({ method, path }: HttpRequest): boolean => method === 'POST' && path === '/sessions'

  it('where a start is called off and its answer never comes', async () => {
    const { service, pool } = use(async (request) => {
      if (!isOpening(request)) return undefined
      await new Promise((go) => request.signal?.addEventListener('abort', go))
      return lost(request.path, 'cancelled')
    })
    const controller = new AbortController()
    const acquired = pool.acquire({ args: undefined, signal: controller.signal })()
    await expect.poll(service.sessions).toBe(1)
    controller.abort()
    expect(await acquired).toMatchObject({ left: { kind: 'cancelled' } })
    await pool.close()
    expect(service.sessions()).toBe(0)
  })

  it('where the answer to a start is lost', async () => {
    const { service, pool } = use(async (request) => (isOpening(request) ? lost(request.path, 'reset') : undefined))
    expect(await pool.acquire({ args: undefined })()).toMatchObject({ left: { kind: 'start' } })
    expect(service.sessions()).toBe(0)
  })

  it('where the service opens the session only after the first DELETE', async () => {
    const service = worldService(shopWorld())
    let opening: Promise<Response> | undefined
    let deletes = 0
    const late = async (request: Request): Promise<Response> => {
      if (request.method === 'POST') {
        const body = await request.text()
        await expect.poll(() => deletes).toBeGreaterThan(0)
        return service.handle(new Request(request.url, { method: 'POST', body }))
      }
      const answer = await service.handle(request)
      if (deletes++ === 0) await opening
      return answer
    }
    const transport = transportTo(
      async (request) => {
        if (request.method !== 'POST') return late(request)
        opening = late(request)
        return Response.error()
      },
      async ({ method, path }) => (method === 'POST' ? lost(path, 'timeout') : undefined),
    ) as Transport // a spec of sessions only sends
    const pool = resourcePool(serviceResource('shop', transport, { endMs: 20 }))
    expect(await pool.acquire({ args: undefined })()).toMatchObject({ left: { kind: 'start' } })
    expect([service.sessions(), deletes]).toEqual([0, 2])
  })

  it('where a DELETE is lost', async () => {
    let deletes = 0
    const service = worldService(shopWorld())
    const lossy = transportTo(service.handle, async () => undefined)
    const transport = {
      send: (request: HttpRequest) =>
        request.method === 'DELETE' && deletes++ === 0
          ? async () => E.left(lost(request.path, 'timeout'))
          : lossy.send(request),
    } as Transport // a spec of sessions only sends
    const pool = resourcePool(serviceResource('shop', transport, { endMs: 20 }))
    orThrow(await pool.acquire({ args: undefined })()).keep('a')
    await pool.close()
    expect(service.sessions()).toBe(0)
  })
})

describe('worldService', () => {
  it('leaves nothing of a session that is ended while it is being started', async () => {
    const service = worldService(shopWorld())
    const opened = await service.handle(new Request('http://test/sessions', { method: 'POST' }))
    const { id } = (await opened.json()) as { readonly id: string } // the form of the protocol
    let write = (_: string): void => {}
    const body = new ReadableStream({
      start: (controller) => {
        write = (text) => {
          controller.enqueue(new TextEncoder().encode(text))
          controller.close()
        }
      },
    })
    const start = { method: 'POST', body, duplex: 'half' } as const
    const starting = service.handle(new Request(`http://test/sessions/${id}/start`, start))
    await service.handle(new Request(`http://test/sessions/${id}`, { method: 'DELETE' }))
    write(JSON.stringify(taskGoal(orThrow(shopTasks(keyFromSeed(2)).at(0)))))
    expect([(await starting).status, service.sessions()]).toEqual([404, 0])
  })

  it('opens a session under an id of the client, once', async () => {
    const service = worldService(shopWorld())
    const open = async (body: string) => {
      const answer = await service.handle(new Request('http://test/sessions', { method: 'POST', body }))
      return `${answer.status} ${await answer.text()}`
    }
    expect(await open('{"id":"s0"}')).toBe('200 {"id":"s0"}')
    expect(await open('{}')).toBe('200 {"id":"s1"}')
    expect(await open('{"id":"s0"}')).toMatch(/^409/)
    for (const bad of ['{"id":"a/b"}', '{"id":7}', '[', 'null', `{"id":"${'x'.repeat(65)}"}`])
      expect(await open(bad)).toMatch(/^400/)
    expect(service.sessions()).toBe(2)
  })
})
