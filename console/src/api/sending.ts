/** A fetch that tells how much of the body has been sent, which the browser's own does not. */

/** `onPart` is told a part of 1. */
export function telling(onPart: (part: number) => void): (request: Request) => Promise<Response> {
  return async (request) => {
    const content = await request.blob();
    return new Promise((resolve, reject) => {
      const call = new XMLHttpRequest();
      call.open(request.method, request.url);
      for (const [name, value] of request.headers) call.setRequestHeader(name, value);
      call.responseType = 'blob';
      call.upload.onprogress = ({ loaded, total }) => onPart(total === 0 ? 1 : loaded / total);
      call.onload = () => resolve(new Response(call.response as Blob, { status: call.status }));
      call.onerror = () => reject(new TypeError('The connection broke'));
      call.send(content);
    });
  };
}
