/**
 * Failures of requests in vLLM's format: `{"error": {message, type, param, code}}`, with the status
 * as code.
 */
import type { GenerationFailure } from '@tandem-rl/text'

/** A refused or failed request. */
export interface ApiFailure {
  readonly _tag: 'ApiFailure'
  readonly status: number
  /** vLLM's name of the kind, such as `BadRequestError`. */
  readonly type: string
  readonly reason: string
  /** The invalid field. */
  readonly param: string | null
}

const TYPES: Readonly<Record<number, string>> = {
  400: 'BadRequestError',
  404: 'NotFoundError',
  405: 'Method Not Allowed',
  413: 'Request Entity Too Large',
  415: 'Unsupported Media Type',
  422: 'UnprocessableEntityError',
  500: 'InternalServerError',
  501: 'NotImplementedError',
  502: 'BadGatewayError',
  503: 'ServiceUnavailableError',
  504: 'GatewayTimeoutError',
}

/** Most characters of a reason. It may quote what a client sent. */
const LONGEST_REASON = 2000

/** Shortens a text for an answer. */
const shortened = (text: string): string =>
  text.length > LONGEST_REASON ? `${text.slice(0, LONGEST_REASON)}...` : text

/**
 * Makes a failure with vLLM's type for its status.
 *
 * @example
 * apiFailure(404, 'The model `x` does not exist.', 'model').type // 'NotFoundError'
 */
export const apiFailure = (status: number, reason: string, param: string | null = null): ApiFailure => ({
  _tag: 'ApiFailure',
  status,
  type: TYPES[status] ?? 'BadRequestError',
  reason: shortened(reason),
  param,
})

/**
 * Makes a failure for an invalid value: 400, with the field and the value in the message, in vLLM's
 * format.
 */
export const invalid = (reason: string, param: string, value?: unknown): ApiFailure =>
  apiFailure(
    400,
    `${reason} (parameter=${param}${value === undefined ? '' : `, value=${JSON.stringify(value).slice(0, 200)}`})`,
    param,
  )

const STATUS_OF: Readonly<Record<GenerationFailure['kind'], number>> = {
  invalid: 400,
  'unknown-adapter': 404,
  overloaded: 503,
  closed: 503,
  internal: 500,
  unreachable: 502,
  timeout: 504,
  unauthorized: 502,
  protocol: 502,
}

/** Converts a failure of the engine. */
export const fromEngine = ({ kind, reason }: GenerationFailure): ApiFailure => apiFailure(STATUS_OF[kind], reason)

/** Returns the body of an error. */
export const errorBody = ({ status, type, reason, param }: ApiFailure): object => ({
  error: { message: reason, type, param, code: status },
})

const ANTHROPIC_TYPES: Readonly<Record<number, string>> = {
  401: 'authentication_error',
  403: 'permission_error',
  404: 'not_found_error',
  413: 'request_too_large',
  429: 'rate_limit_error',
  503: 'overloaded_error',
  504: 'timeout_error',
}

/** Returns the body of an error of the Messages API. */
export const anthropicBody = ({ status, reason }: ApiFailure): object => ({
  type: 'error',
  error: {
    type: ANTHROPIC_TYPES[status] ?? (status >= 500 ? 'api_error' : 'invalid_request_error'),
    message: reason,
  },
})

/** Makes a response of JSON text. */
export const jsonTextResponse = (text: string, status = 200): Response =>
  new Response(text, { status, headers: { 'content-type': 'application/json' } })

/** Makes a JSON response. */
export const jsonResponse = (body: unknown, status = 200): Response => jsonTextResponse(JSON.stringify(body), status)

/**
 * Makes the response to a failed request, in the format of the path's protocol. A conflict has the
 * header `x-should-retry: false`, because a retry would meet the same conflict.
 */
export const failureResponse = (failure: ApiFailure, path = ''): Response => {
  const body = path.startsWith('/v1/messages') ? anthropicBody(failure) : errorBody(failure)
  const response = jsonResponse(body, failure.status)
  if (failure.status === 409) response.headers.set('x-should-retry', 'false')
  return response
}
