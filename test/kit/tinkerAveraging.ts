/** A Tinker server that adds gradients up as SkyRL does, over our own server. */
import type { TinkerFetch } from '@tandem-rl/tinker'
import type { TinkerApp } from '@tandem-rl/tinker/server'

interface Tensor {
  data: number[]
}

interface LossBody {
  forward_backward_input?: {
    loss_fn: string
    data: { loss_fn_inputs: Record<'weights' | 'advantages', Tensor> }[]
  }
}

const LEAST = 1e-9

/** Divides the loss of each sequence by its sum of weights, and by the number of sequences. */
const averaged = (text: string, exponent: number): string => {
  const body = JSON.parse(text) as LossBody // the request of our client
  const { loss_fn: loss, data = [] } = body.forward_backward_input ?? {}
  for (const { loss_fn_inputs: inputs } of data) {
    const tensor = loss === 'cross_entropy' ? inputs.weights : inputs.advantages
    const sum = loss === 'cross_entropy' ? tensor.data.reduce((total, x) => total + x, 0) : tensor.data.length
    const divisor = (Math.max(sum, LEAST) * data.length) ** exponent
    tensor.data = tensor.data.map((x) => x / divisor)
  }
  return JSON.stringify(body)
}

/**
 * Requests to a server whose gradients are averages, and which names itself as SkyRL does. With the
 * exponent 0.5, it divides by the root instead.
 */
export const averagingFetch =
  (app: TinkerApp, exponent = 1): TinkerFetch =>
  async (url, { method, headers, body }) => {
    const { pathname } = new URL(url)
    if (pathname === '/') return Response.json({ name: 'Tinker API Mock' })
    const isLoss = pathname.endsWith('/forward_backward') && typeof body === 'string'
    const sent = isLoss ? averaged(body, exponent) : body
    return app.fetch(new Request(url, { method, headers, ...(sent !== undefined && { body: sent }) }))
  }
