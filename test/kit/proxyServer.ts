/**
 * A real HTTP proxy for tests: requests of every host are sent to one server, whole or through
 * tunnels.
 */
import { createServer, type IncomingMessage, request, type ServerResponse } from 'node:http'
import { type AddressInfo, connect, type Socket } from 'node:net'
import { onTestFinished } from 'vitest'

interface ProxyServer {
  readonly url: string
  /** Methods and targets of requests, in order. */
  readonly seen: readonly string[]
  /** Values of `proxy-authorization`. */
  readonly credentials: ReadonlySet<string | undefined>
  /** Connections of clients. */
  readonly connections: () => number
}

/** Starts a proxy before the servers at `plain` and `secure`. With a `status`, it refuses all. */
export const proxyServer = async (
  { plain, secure = plain }: { readonly plain: string; readonly secure?: string },
  status?: number,
): Promise<ProxyServer> => {
  const seen: string[] = []
  const credentials = new Set<string | undefined>()
  const sockets = new Set<Socket>()
  let connections = 0
  const note = ({ method, url, headers }: IncomingMessage): void => {
    seen.push(`${method} ${url}`)
    credentials.add(headers['proxy-authorization'])
  }
  const forward = (incoming: IncomingMessage, response: ServerResponse): void => {
    note(incoming)
    if (status !== undefined) return void response.writeHead(status).end('refused by the proxy')
    const { method, url, headers } = incoming
    const { pathname, search } = new URL(url!)
    const onward = request(new URL(pathname + search, plain), { method, headers }, (answer) => {
      response.writeHead(answer.statusCode!, answer.headers)
      answer.pipe(response)
    })
    onward.on('error', () => response.destroy())
    incoming.pipe(onward)
  }
  const server = createServer(forward)
  server.on('connection', () => connections++)
  server.on('connect', (incoming: IncomingMessage, socket: Socket) => {
    note(incoming)
    if (status !== undefined) return void socket.end(`HTTP/1.1 ${status} No\r\n\r\n`)
    const { port } = new URL(incoming.url!.endsWith(':80') ? plain : secure)
    const onward = connect(Number(port), '127.0.0.1', () => socket.write('HTTP/1.1 200 OK\r\n\r\n'))
    for (const each of [socket, onward]) {
      sockets.add(each)
      each.on('error', () => undefined) // the other end is closed below
      each.on('close', () => [socket, onward].forEach((end) => end.destroy()))
    }
    onward.pipe(socket).pipe(onward)
  })
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
  onTestFinished(
    () =>
      new Promise((resolve) => {
        server.close(() => resolve())
        server.closeAllConnections()
        for (const socket of sockets) socket.destroy()
      }),
  )
  const { port } = server.address() as AddressInfo // a TCP server
  return { url: `http://127.0.0.1:${port}`, seen, credentials, connections: () => connections }
}

/** A self-signed certificate of `policy.test`, and its key. */
export const SELF_SIGNED = {
  key: `-----BEGIN PRIVATE KEY-----
MIGHAgEAMBMGByqGSM49AgEGCCqGSM49AwEHBG0wawIBAQQgq01aiv9VYY1Uakj2
8ldQvCc8mOMVsk3EATFrBDozslKhRANCAAQA91dJmkSm/TxsqWtsmOxYHPbR+434
txbYxZp/aLB0XlLopRaKnUKAIUUXO4zuBNrRXUzhl9mMOTajIn7DcTC3
-----END PRIVATE KEY-----
`,
  cert: `-----BEGIN CERTIFICATE-----
MIIBmjCCAUGgAwIBAgIUPxZo7//BWpaeZNAZCxT3wGhsOXYwCgYIKoZIzj0EAwIw
FjEUMBIGA1UEAwwLcG9saWN5LnRlc3QwIBcNMjYxMTI3MDIyMDUyWhgPMjEyNjEx
MDMwMjIwNTJaMBYxFDASBgNVBAMMC3BvbGljeS50ZXN0MFkwEwYHKoZIzj0CAQYI
KoZIzj0DAQcDQgAEAPdXSZpEpv08bKlrbJjsWBz20fuN+LcW2MWaf2iwdF5S6KUW
ip1CgCFFFzuM7gTa0V1M4ZfZjDk2oyJ+w3Ewt6NrMGkwHQYDVR0OBBYEFEfdI9eQ
lL7JXgYmGeUYZV80G41FMB8GA1UdIwQYMBaAFEfdI9eQlL7JXgYmGeUYZV80G41F
MA8GA1UdEwEB/wQFMAMBAf8wFgYDVR0RBA8wDYILcG9saWN5LnRlc3QwCgYIKoZI
zj0EAwIDRwAwRAIgKmpChdu6bR4/XDKouLv/dLPqam6OJKBQm6dm7oo6wnwCIB1I
lLO5veuaCBhEAhNTkX/9cuFBdA8QiJgAw7XEJr98
-----END CERTIFICATE-----
`,
}
