"""HTTP: requests enter, answers leave. What is computed for them is in `inspection` and `decoding`.

explorer/      the service behind the page of `clearhead explore`
server/        the routes, keys and limits of `clearhead serve`
bodies         reads the body of a request, up to a limit
sockets        serves an app on a socket: limits, and a prompt end
access_token   refuses requests without the token of the address that was opened
origin         who may send requests to a service on this machine, and what a browser may do with the answers
"""
