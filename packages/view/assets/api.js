/** Requests to the server of the page. An exported page answers them from its embedded data. */
import { answerFrom } from './offline.js'
import { queryOf } from './router.js'

const element = document.getElementById('data')
const embedded = element === null ? null : JSON.parse(element.textContent)

/** True for a page that was exported to a file. */
export const isExported = embedded !== null

export const exportedAt = embedded?.exportedAt ?? null

/** @param {string} id of a run */
export const runPath = (id) => `/api/runs/${encodeURIComponent(id)}`

/** @param {Response} response */
const checked = async (response) => {
  if (response.ok) return response
  let reason = `the server answered with status ${response.status}`
  try {
    reason = (await response.json()).error.reason
  } catch {
    // The answer is not the server's own error; the status is all there is.
  }
  throw new Error(reason)
}

/**
 * Gets an answer as JSON. Throws an Error with the server's reason.
 *
 * @param {string} path
 * @param {Record<string, unknown>} [query]
 * @param {AbortSignal} [signal]
 */
export const get = async (path, query = {}, signal) => {
  if (embedded !== null) return answerFrom(embedded.answers, path, query)
  return (await checked(await fetch(path + queryOf(query), { signal }))).json()
}

const sent = (method) => async (path, body, signal) => {
  if (embedded !== null) throw new Error('an exported page cannot be changed')
  const headers = { 'content-type': 'application/json' }
  return checked(await fetch(path, { method, headers, body: JSON.stringify(body), signal }))
}

const putRequest = sent('PUT')
const postRequest = sent('POST')

/** @param {string} path @param {unknown} body */
export const put = async (path, body) => (await putRequest(path, body)).json()

/** @param {string} path @param {unknown} body @param {AbortSignal} [signal] */
export const post = async (path, body, signal) => (await postRequest(path, body, signal)).json()

/**
 * Sends a request whose answer is a stream of JSON lines, and calls `take` with each line. Throws
 * an Error if the stream ends with a reason or without an end.
 *
 * @param {string} path
 * @param {unknown} body
 * @param {(line: object) => void} take
 * @param {AbortSignal} signal
 */
export const stream = async (path, body, take, signal) => {
  const reader = (await postRequest(path, body, signal)).body.pipeThrough(new TextDecoderStream()).getReader()
  let rest = ''
  for (;;) {
    const { value, done } = await reader.read()
    const lines = (rest + (value ?? '')).split('\n')
    rest = done ? '' : lines.pop()
    for (const text of lines) {
      if (text.trim() === '') continue
      const line = JSON.parse(text)
      if (line.type === 'end') {
        if (line.reason !== null) throw new Error(line.reason)
        return
      }
      take(line)
    }
    if (done) throw new Error('the answer broke off')
  }
}

/**
 * Listens to events of the server. Returns a function that stops listening.
 *
 * @param {string} path
 * @param {Record<string, (data: unknown) => void>} handlers by the event's name
 */
export const listen = (path, handlers) => {
  if (embedded !== null) return () => {}
  const source = new EventSource(path)
  for (const [name, handle] of Object.entries(handlers)) {
    source.addEventListener(name, (event) => handle(JSON.parse(event.data)))
  }
  return () => source.close()
}
