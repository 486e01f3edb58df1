/** A scripted HTTP server on this machine that can refuse requests or lose answers. */
import { createServer, type IncomingMessage, type ServerResponse } from 'node:http'
import type { AddressInfo } from 'node:net'

/** The effect on a request: it is refused before, or its answer is lost after it was done. */
type Trouble = 'none' | 'refuse' | 'lose-answer'

export interface TroubledServer {
  readonly url: string
  /** Decides about each request. */
  readonly trouble: (decide: (path: string) => Trouble) => void
  readonly close: () => Promise<void>
}

/** The request as scripts read it. */
export interface Asked {
  readonly url: URL
  readonly headers: IncomingMessage['headers']
  readonly body: string
}

export type Answer = readonly [status: number, answer: object]

const textOf = async (request: IncomingMessage): Promise<string> => {
  const parts: Buffer[] = []
  for await (const part of request) parts.push(part as Buffer) // no encoding is set
  return Buffer.concat(parts).toString('utf8')
}

/** Starts a server. A request for which `answer` throws gets a 400 with the error. */
export const troubledServer = async (answer: (asked: Asked) => Answer): Promise<TroubledServer> => {
  let decide: (path: string) => Trouble = () => 'none'
  const handle = async (request: IncomingMessage, response: ServerResponse): Promise<void> => {
    const url = new URL(request.url!, 'http://server')
    const asked = { url, headers: request.headers, body: await textOf(request) }
    const trouble = decide(url.pathname)
    if (trouble === 'refuse') {
      response.writeHead(503).end()
      return
    }
    const [status, json] = (() => {
      try {
        return answer(asked)
      } catch (error) {
        return [400, { message: String(error) }] as const
      }
    })()
    if (trouble === 'lose-answer') request.socket.destroy()
    else response.writeHead(status, { 'content-type': 'application/json' }).end(JSON.stringify(json))
  }
  const server = createServer((request, response) => void handle(request, response))
  await new Promise<void>((resolve) => {
    server.listen(0, '127.0.0.1', resolve)
  })
  return {
    url: `http://127.0.0.1:${(server.address() as AddressInfo).port}`, // a TCP server
    trouble: (next) => {
      decide = next
    },
    close: () =>
      new Promise((resolve) => {
        server.close(() => resolve())
        server.closeAllConnections()
      }),
  }
}
