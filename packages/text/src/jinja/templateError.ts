/**
 * A failure of a template: Python would raise, or the budget of work is exhausted. It is caught
 * where templates are rendered.
 */
export class TemplateError extends Error {
  constructor(message: string) {
    super(message)
    this.name = 'TemplateError'
  }
}
