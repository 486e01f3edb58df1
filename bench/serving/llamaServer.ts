/**
 * llama.cpp, by node-llama-cpp, behind the part of `/v1/completions` that the load uses: token ids
 * in, a number of sampled tokens out. Run as a process of its own:
 *
 *     LLAMA_FOLDER=<folder> tsx bench/serving/llamaServer.ts MODEL.gguf PORT SEQUENCES THREADS
 *
 * where `npm install node-llama-cpp` was run in that folder.
 */
import { createServer, type IncomingMessage, type ServerResponse } from 'node:http'
import { join } from 'node:path'
import { pathToFileURL } from 'node:url'

interface Sequence {
  readonly evaluate: (
    tokens: readonly number[],
    options: { readonly temperature: number; readonly yieldEogToken: true },
  ) => AsyncGenerator<number>
  readonly clearHistory: () => Promise<void>
}

interface Context {
  readonly getSequence: () => Sequence
}

interface Model {
  readonly createContext: (options: {
    readonly sequences: number
    readonly contextSize: number
    readonly threads: number
  }) => Promise<Context>
}

interface Llama {
  readonly loadModel: (options: { readonly modelPath: string }) => Promise<Model>
}

/** The part of node-llama-cpp 3 that is used. */
interface LlamaPackage {
  readonly getLlama: (options: {
    readonly gpu: false
    readonly build: 'never'
    readonly logLevel: 'error'
    readonly maxThreads: number
  }) => Promise<Llama>
}

const folder = process.env.LLAMA_FOLDER
const [modelPath, port, sequenceCount, threadCount] = process.argv.slice(2)
if (folder === undefined || modelPath === undefined) {
  throw new Error('usage: LLAMA_FOLDER=<folder with node-llama-cpp> llamaServer.ts MODEL.gguf PORT SEQUENCES THREADS')
}
const [sequences, threads] = [Number(sequenceCount), Number(threadCount)]
const entry = join(folder, 'node_modules', 'node-llama-cpp', 'dist', 'index.js')
// A cast: the package is installed outside the project, so that its types are not there.
const { getLlama } = (await import(pathToFileURL(entry).href)) as LlamaPackage
const llama = await getLlama({ gpu: false, build: 'never', logLevel: 'error', maxThreads: threads })
const model = await llama.loadModel({ modelPath })
const context = await model.createContext({ sequences, contextSize: 512, threads })

const free: Sequence[] = Array.from({ length: sequences }, () => context.getSequence())

const answer = async (request: IncomingMessage, response: ServerResponse): Promise<void> => {
  const pieces: Buffer[] = []
  for await (const piece of request) pieces.push(piece)
  // A cast: only the load sends requests.
  const body = JSON.parse(Buffer.concat(pieces).toString()) as {
    readonly prompt: readonly number[]
    readonly max_tokens: number
  }
  const sequence = free.pop()
  if (sequence === undefined) throw new Error('more requests at a time than sequences')
  let tokens = 0
  for await (const _ of sequence.evaluate(body.prompt, { temperature: 1, yieldEogToken: true })) {
    if (++tokens === body.max_tokens) break
  }
  await sequence.clearHistory()
  free.push(sequence)
  response.setHeader('content-type', 'application/json')
  response.end(JSON.stringify({ usage: { completion_tokens: tokens } }))
}

createServer((request, response) => {
  if (request.method !== 'POST') {
    response.end('{}')
    return
  }
  answer(request, response).catch((error: unknown) => {
    response.statusCode = 500
    response.end(JSON.stringify({ error: String(error) }))
  })
}).listen(Number(port), '127.0.0.1')
