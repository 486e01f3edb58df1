/** An MCP server with tools for tests, made with the SDK. As a program it talks over its input and output. */
import { writeFileSync } from 'node:fs'
import { pathToFileURL } from 'node:url'
import { McpServer } from '@modelcontextprotocol/sdk/server/mcp.js'
import { StdioServerTransport } from '@modelcontextprotocol/sdk/server/stdio.js'
import { z } from 'zod'

const text = (value) => ({ content: [{ type: 'text', text: value }] })

/** A server. `die` ends what it runs in; `calls` counts the calls of each tool. */
export const makeMcpServer = ({ die, calls = {} }) => {
  const server = new McpServer({ name: 'for-tests', version: '1' })
  const tool = (name, { inputSchema = {}, readOnly = false }, run) =>
    server.registerTool(
      name,
      { description: `Does ${name}.`, inputSchema, annotations: { readOnlyHint: readOnly } },
      (args, extra) => {
        calls[name] = (calls[name] ?? 0) + 1
        return run(args, extra)
      },
    )
  tool('add', { inputSchema: { a: z.number(), b: z.number() }, readOnly: true }, async ({ a, b }) =>
    text(String(a + b)),
  )
  tool('echo', { inputSchema: { text: z.string() } }, async (args) => text(args.text))
  tool('fail', {}, async () => ({ ...text('no such customer'), isError: true }))
  tool('picture', {}, async () => ({
    content: [
      { type: 'text', text: 'a dot' },
      { type: 'image', data: 'iVBORw0KGgo=', mimeType: 'image/png' },
      { type: 'resource', resource: { uri: 'file:///notes.txt', text: 'note', mimeType: 'text/plain' } },
      { type: 'resource', resource: { uri: 'file:///data.bin', blob: 'AAAA', mimeType: 'application/zip' } },
      { type: 'resource_link', uri: 'https://example.org/', name: 'link' },
    ],
  }))
  tool('environment', {}, async () => text(JSON.stringify(process.env)))
  tool('sleep', {}, (_, { signal }) => {
    signal.addEventListener('abort', () => {
      calls.cancelled = (calls.cancelled ?? 0) + 1
    })
    return new Promise(() => {})
  })
  tool('calls', {}, async () => text(JSON.stringify(calls)))
  tool('die', {}, async () => die())
  // Dies the first time, and answers the second: what it was before is known from a file.
  tool('dieOnce', { inputSchema: { file: z.string() }, readOnly: true }, async ({ file }) => {
    try {
      writeFileSync(file, '', { flag: 'wx' })
    } catch {
      return text('alive')
    }
    return die()
  })
  tool('grow', {}, async () => {
    tool('grown', {}, async () => text('new'))
    return text('grew')
  })
  return server
}

if (import.meta.url === pathToFileURL(process.argv[1] ?? '').href) {
  const server = makeMcpServer({
    die: () => {
      console.error(`the disk is full, says ${process.env.API_TOKEN}`)
      process.exit(3)
    },
  })
  await server.connect(new StdioServerTransport())
}
