import { describe, expect, it } from 'vitest'
import { bodyOf, GET, itemsOf, startServer, transportTo } from '../../../../test/kit/transports.js'

describe('a whole answer', () => {
  it('comes with status, headers, server and attempts; JSON is sent with its type', async () => {
    const url = await startServer(async (request, response) => {
      const said = { path: request.url, type: request.headers['content-type'], body: await bodyOf(request) }
      response.setHeader('X-Thing', 'yes').end(JSON.stringify(said))
    })
    const transport = transportTo(`${url}/v1/`)
    const reply = await transport.send({ method: 'POST', path: '/a?b=1', json: { x: 'ü' }, repeat: 'fresh' })()
    expect(reply).toMatchObject({
      right: { status: 200, server: url, attempts: 1, headers: { 'x-thing': 'yes' } },
    })
    expect(JSON.parse((reply as { right: { text: string } }).right.text)).toEqual({
      path: '/v1/a?b=1',
      type: 'application/json',
      body: '{"x":"ü"}',
    })
  })

  it('is asked for again after a status that may pass, with JSON made anew', async () => {
    const bodies: string[] = []
    const url = await startServer(async (request, response) => {
      bodies.push(await bodyOf(request))
      response.writeHead(bodies.length < 3 ? 503 : 200).end('{}')
    })
    const json = (attempt: number) => ({ attempt })
    const reply = await transportTo(url).send({ method: 'POST', path: '/x', json, repeat: 'fresh' })()
    expect(reply).toMatchObject({ right: { attempts: 3 } })
    expect(bodies).toEqual(['{"attempt":1}', '{"attempt":2}', '{"attempt":3}'])
  })

  it('other than 2xx is a failure with the beginning of what the server said', async () => {
    const url = await startServer((_, response) => response.writeHead(400).end('no such model'))
    expect(await transportTo(url).send(GET)()).toMatchObject({
      left: { kind: 'status', status: 400, body: 'no such model', acted: 'no', attempts: 1, path: '/thing' },
    })
  })
})

describe('events', () => {
  it('come one by one, as they are sent', async () => {
    const url = await startServer((_, response) => {
      response.writeHead(200, { 'content-type': 'text/event-stream' })
      response.write('data: 1\n\nevent: b\r\ndata: 2\r\n\r\n: note\n\nda')
      setImmediate(() => response.end('ta: [DONE]\n\n'))
    })
    expect(await itemsOf(transportTo(url), GET)).toEqual([
      { _tag: 'Event', event: { event: undefined, data: '1' } },
      { _tag: 'Event', event: { event: 'b', data: '2' } },
      { _tag: 'Event', event: { event: undefined, data: '[DONE]' } },
    ])
  })
})
