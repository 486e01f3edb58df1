#!/usr/bin/env node
/**
 * Firefox for playwright-core, which speaks WebDriver BiDi with it. Commands that the Firefox of
 * Debian does not have yet are answered here; everything else passes through.
 */
import { spawn } from 'node:child_process'
import { createServer } from 'node:http'
import { WebSocket, WebSocketServer } from 'ws'

const MISSING = new Set(['emulation.setMediaFeaturesOverride'])

const firefox = spawn(process.env.FIREFOX_PATH, process.argv.slice(2), { stdio: ['ignore', 'inherit', 'pipe'] })

/** Connects a client to the browser at an address. */
const connect = (address) => (client) => {
  const browser = new WebSocket(address)
  const early = []
  client.on('message', (data) => {
    const text = data.toString()
    const { id, method } = JSON.parse(text)
    if (MISSING.has(method)) client.send(JSON.stringify({ type: 'success', id, result: {} }))
    else if (browser.readyState === WebSocket.OPEN) browser.send(text)
    else early.push(text)
  })
  browser.on('open', () => early.splice(0).forEach((text) => browser.send(text)))
  browser.on('message', (data) => client.send(data.toString()))
  browser.on('close', () => client.close())
  browser.on('error', () => client.close())
  client.on('close', () => browser.close())
}

const relay = (address) => {
  const server = createServer().listen(0, '127.0.0.1', () => {
    process.stderr.write(`WebDriver BiDi listening on ws://127.0.0.1:${server.address().port}\n`)
  })
  new WebSocketServer({ server }).on('connection', (client, { url }) => connect(address + url)(client))
}

let printed = ''
const read = (chunk) => {
  printed += chunk
  const address = /WebDriver BiDi listening on (ws:\/\/\S+)\s/.exec(printed)?.[1]
  if (address === undefined) return
  firefox.stderr.off('data', read).resume()
  relay(address)
}
firefox.stderr.on('data', read)
firefox.on('exit', (code) => process.exit(code ?? 0))
process.on('SIGTERM', () => firefox.kill())
