/** Access by API key and origin. */
import { isAuthorized } from '@tandem-rl/host'
import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import { ask, saying, served } from '../../../test/kit/served.js'

describe('keys', () => {
  const app = served(saying('x'), { access: { apiKeys: ['one', 'two'] }, features: { control: 'on' } })

  const status = async (path: string, authorization?: string): Promise<number> =>
    (await ask(app, path, authorization === undefined ? {} : { headers: { authorization } })).status

  it('open the API, any of them', async () => {
    for (const key of ['Bearer one', 'bearer two', 'BEARER one']) expect(await status('/v1/models', key)).toBe(200)
    for (const key of ['one', 'Bearer', 'Bearer three', 'Bearer onetwo', 'Basic one', 'Bearer '])
      expect(await status('/v1/models', key), key).toBe(401)
    expect((await ask(app, '/v1/models')).json).toEqual({ error: 'Unauthorized' })
  })

  it('are asked for on the paths of the API, however they are written', async () => {
    for (const path of [
      '/v1/models',
      '/v1/nothing',
      '/v2/x',
      '/inference/v1/generate',
      '/%76%31/models',
      '/v1/../v1/models',
    ])
      expect(await status(path), path).toBe(401)
    for (const path of ['/health', '/version', '/metrics', '/is_paused']) expect(await status(path), path).toBe(200)
  })

  it('are equal or not, and nothing else counts', async () => {
    await fc.assert(
      fc.asyncProperty(fc.string(), fc.array(fc.string()), async (given, keys) => {
        const token = given.replaceAll(/[\r\n\u2028\u2029]/g, '')
        expect(await isAuthorized(token, keys)).toBe(keys.includes(token))
      }),
    )
  })
})

describe('pages of other origins', () => {
  const preflight = {
    method: 'OPTIONS',
    headers: { origin: 'https://a.test', 'access-control-request-method': 'POST' },
  }

  it('may not ask unless they are listed', async () => {
    const closed = await ask(served(saying('x')), '/v1/completions', preflight)
    expect([closed.status, closed.headers.get('access-control-allow-origin')]).toEqual([405, null])
    const app = served(saying('x'), { access: { corsOrigins: ['https://a.test'], apiKeys: ['k'] } })
    const open = await ask(app, '/v1/completions', preflight)
    expect([open.status, open.headers.get('access-control-allow-origin')]).toEqual([204, 'https://a.test'])
    const other = await ask(app, '/health', { headers: { origin: 'https://b.test' } })
    expect(other.headers.get('access-control-allow-origin')).toBeNull()
  })

  it('may not send what browsers send without asking first', async () => {
    const paused = (app: ReturnType<typeof served>, origin?: string) =>
      ask(app, '/pause', {
        method: 'POST',
        headers: { host: 'localhost:8000', ...(origin !== undefined && { origin }) },
      })
    const features = { control: 'on' } as const
    const closed = served(saying('x'), { features })
    for (const origin of ['https://a.test', 'null', 'http://localhost:9000', 'file://'])
      expect((await paused(closed, origin)).status, origin).toBe(403)
    for (const origin of [undefined, 'http://localhost:8000'])
      expect((await paused(closed, origin)).status, origin).toBe(200)
    const open = served(saying('x'), { features, access: { corsOrigins: ['https://a.test'] } })
    expect((await paused(open, 'https://a.test')).status).toBe(200)
  })
})
